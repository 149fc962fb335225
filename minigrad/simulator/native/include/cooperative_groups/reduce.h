// Reductions over a tile or a coalesced group. Floats are combined in the same order as on the GPU.
#pragma once

#include "collectives.h"

namespace cooperative_groups {

// Every thread of the group receives the values of all, combined.
template <unsigned N, class Parent, class T, class Operator>
MINIGRAD_INLINE T reduce(const thread_block_tile<N, Parent>& group, T value, Operator combine, MINIGRAD_HERE) {
    collectives::check<thread_block_tile<N, Parent>, T, Operator>();
    for (int bits = N / 2; bits > 0; bits /= 2) value = combine(value, group.shfl_xor(value, bits, file, line));
    return value;
}
template <class T, class Operator>
MINIGRAD_INLINE T reduce(const coalesced_group& group, T value, Operator combine, MINIGRAD_HERE) {
    collectives::check<coalesced_group, T, Operator>();
    if (group.size() == 32) return reduce(thread_block_tile<32>(0, 1), value, combine, file, line);
    T last = collectives::scan(group, value, combine, file, line);
    return group.shfl(last, group.size() - 1, file, line);
}

// Thread 0 of the group writes the result.
template <class Group, class T, class Operator>
MINIGRAD_INLINE void reduce_store_async(const Group& group, T* to, T value, Operator combine, MINIGRAD_HERE) {
    T total = reduce(group, value, combine, file, line);
    if (group.thread_rank() == 0) *to = total;
}

}  // namespace cooperative_groups
