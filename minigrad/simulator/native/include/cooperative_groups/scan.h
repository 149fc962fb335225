// Prefix sums over a tile or a coalesced group, by the ranks of its threads. Floats are combined in the same order as on
// the GPU.
#pragma once

#include "collectives.h"

namespace cooperative_groups {

template <class Group, class T, class Operator>
MINIGRAD_INLINE T inclusive_scan(const Group& group, T value, Operator combine, MINIGRAD_HERE) {
    collectives::check<Group, T, Operator>();
    return collectives::scan(group, value, combine, file, line);
}
template <class Group, class T>
MINIGRAD_INLINE T inclusive_scan(const Group& group, T value, MINIGRAD_HERE) {
    return inclusive_scan(group, value, plus<T>(), file, line);
}

// Without the own value. Thread 0 of the group receives T().
template <class Group, class T, class Operator>
MINIGRAD_INLINE T exclusive_scan(const Group& group, T value, Operator combine, MINIGRAD_HERE) {
    T before = group.shfl_up(inclusive_scan(group, value, combine, file, line), 1, file, line);
    return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T>
MINIGRAD_INLINE T exclusive_scan(const Group& group, T value, MINIGRAD_HERE) {
    return exclusive_scan(group, value, plus<T>(), file, line);
}

}  // namespace cooperative_groups
