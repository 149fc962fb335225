// Copies by a whole group. Under a watch the target is undefined until the group has waited.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

// Each thread of the group copies the elements with its rank, modulo the size of the group.
template <class Group, class T>
MINIGRAD_INLINE void memcpy_async(const Group& group, T* to, size_t places, const T* from, size_t count) {
    static_assert(sizeof(T) <= 16, "the simulator copies elements of at most 16 bytes");
    for (size_t i = group.thread_rank(); i < min(places, count); i += group.size()) {
        to[i] = from[i];
        MINIGRAD_NOTE_COPY(to + i, sizeof(T));
    }
    MINIGRAD_NOTE_COMMIT();
}
template <class Group, class T>
MINIGRAD_INLINE void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
    memcpy_async(group, to, bytes / sizeof(T), from, bytes / sizeof(T));
}

// Until all copies of the group but the last N have arrived.
template <unsigned N, class Group>
MINIGRAD_INLINE void wait_prior(const Group& group, MINIGRAD_HERE) {
    MINIGRAD_NOTE_ARRIVAL(N);
    group.sync(file, line);
}
template <class Group>
MINIGRAD_INLINE void wait(const Group& group, MINIGRAD_HERE) {
    wait_prior<0>(group, file, line);
}

}  // namespace cooperative_groups
