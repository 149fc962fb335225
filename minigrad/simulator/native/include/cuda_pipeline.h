// A thread's own copies into shared memory, done at once. Under a watch the target is undefined until it has waited.
#pragma once

template <class T, class S>
MINIGRAD_INLINE void __pipeline_memcpy_async(T* to, const S* from, size_t bytes, size_t zeros = 0) {
    memcpy((void*)to, from, bytes - zeros);
    memset((char*)to + bytes - zeros, 0, zeros);
    MINIGRAD_NOTE_COPY(to, bytes);
}
MINIGRAD_INLINE void __pipeline_commit() { MINIGRAD_NOTE_COMMIT(); }
MINIGRAD_INLINE void __pipeline_wait_prior(unsigned left) { MINIGRAD_NOTE_ARRIVAL(left); }
