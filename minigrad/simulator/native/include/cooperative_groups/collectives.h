// The operators of reductions and scans, and the steps that both have.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T> struct plus {
    T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
    T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
    T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T> struct bit_and {
    T operator()(T a, T b) const { return a & b; }
};
template <class T> struct bit_or {
    T operator()(T a, T b) const { return a | b; }
};
template <class T> struct bit_xor {
    T operator()(T a, T b) const { return a ^ b; }
};

namespace collectives {

template <class Group> struct OfLanes : std::false_type {};
template <unsigned N, class Parent> struct OfLanes<thread_block_tile<N, Parent>> : std::true_type {};
template <> struct OfLanes<coalesced_group> : std::true_type {};

template <class Group, class T, class Operator>
MINIGRAD_INLINE constexpr void check() {
    static_assert(OfLanes<Group>::value, "reductions and scans are of a tile or a coalesced group");
    static_assert(std::is_same<decltype(std::declval<Operator>()(std::declval<T>(), std::declval<T>())), T>::value,
                  "the operator returns another type than the value has");
}

// Each thread receives the values of the threads up to its rank, combined, in steps of 1, 2, 4, 8 and 16.
template <class Group, class T, class Operator>
MINIGRAD_INLINE T scan(const Group& group, T value, Operator& combine, const char* file, int line) {
    for (unsigned step = 1; step < group.size(); step *= 2) {
        T before = group.shfl_up(value, step, file, line);
        if (group.thread_rank() >= step) value = combine(value, before);
    }
    return value;
}

}  // namespace collectives

}  // namespace cooperative_groups
