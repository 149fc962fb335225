// CUDA's cooperative groups: threads that meet and exchange values. A group is the grid, a block, or lanes of a warp.
#pragma once

#include <type_traits>

#define MINIGRAD_METHOD inline __attribute__((always_inline))

namespace minigrad {

// A value of up to 32 bytes moves in words of 8, each by a shuffle of its own.
template <class T, class Shuffle>
MINIGRAD_INLINE T in_words(const T& value, Shuffle shuffle) {
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 32,
                  "a group exchanges values of at most 32 bytes that can be copied byte by byte");
    if constexpr (sizeof(T) <= 8) {
        return shuffle(value);
    } else {
        uint64_t words[(sizeof(T) + 7) / 8] = {};
        memcpy(words, &value, sizeof value);
        for (uint64_t& word : words) word = shuffle(word);
        T moved;
        memcpy((void*)&moved, words, sizeof moved);
        return moved;
    }
}

// Bit r of the result: whether the lane of rank r in the mask is one of these lanes.
MINIGRAD_INLINE unsigned by_rank(unsigned mask, unsigned lanes) {
    unsigned packed = 0, rank = 0;
    for (unsigned rest = mask; rest; rest &= rest - 1, ++rank) packed |= (lanes >> __builtin_ctz(rest) & 1) << rank;
    return packed;
}
MINIGRAD_INLINE unsigned rank_in(unsigned mask) { return __builtin_popcount(mask & ~(~0u << lane())); }

// The lanes of the mask in runs of `size`: those of the run that holds this lane.
MINIGRAD_INLINE unsigned run_of(unsigned mask, unsigned size, const char* file, int line) {
    if (!size || size > 32 || size & (size - 1))
        minigrad_assert_failed("the size of a tile is a power of two up to 32", file, line);
    unsigned first = rank_in(mask) / size * size, run = 0, rank = 0;
    for (unsigned rest = mask; rest; rest &= rest - 1, ++rank)
        if (rank - first < size) run |= rest & -rest;
    return run;
}
// The lanes of this warp that the block has.
MINIGRAD_INLINE unsigned lanes_of_block() {
    unsigned left = blockDim.x * blockDim.y * blockDim.z - minigrad_self()->index / 32 * 32;
    return left < 32 ? ~(~0u << left) : ~0u;
}

// The barrier of the grid, as in grid_barrier.cuh. The upper half of the counter is the number of the launch, so that a
// launch which was stopped leaves nothing to the next; the lower half counts the blocks that have arrived.
static unsigned long long grid_arrivals;
MINIGRAD_NOTE_DEVICE(grid_arrivals)
MINIGRAD_INLINE void arrive_and_wait(const char* file, int line) {
    unsigned long long launch = minigrad_self()->launch << 32, seen, count = atomicAdd(&grid_arrivals, 0, file, line);
    do {
        seen = count;
        count = atomicCAS(&grid_arrivals, seen, (seen >> 32 == launch >> 32 ? seen : launch) + 1, file, line);
    } while (count != seen);
    unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    unsigned before = seen >> 32 == launch >> 32 ? seen : 0, target = (before / blocks + 1) * blocks;
    while (unsigned(atomicAdd(&grid_arrivals, 0, file, line)) < target) __nanosleep(0, file, line);
}
MINIGRAD_INLINE void meet_block(const char* name, const char* file, int line) {
    Site site = {name, file, line};
    minigrad_meet(&site, 0);
}
MINIGRAD_INLINE void meet_grid(const char* file, int line) {
    if (!minigrad_self()->cooperative) minigrad_assert_failed("grid_group::sync", file, line);
    meet_block("grid_group::sync", file, line);
    if (minigrad_self()->index == 0) {
        __threadfence();
        arrive_and_wait(file, line);
        __threadfence();
    }
    meet_block("grid_group::sync", file, line);
}

}  // namespace minigrad

namespace cooperative_groups {

class thread_block;
class coalesced_group;

// A group of any kind.
class thread_group {
protected:
    enum Kind { LANES, BLOCK, GRID } kind;
    unsigned mask, meta_rank, meta_size;  // of LANES
    MINIGRAD_METHOD thread_group(Kind kind, unsigned mask = 0, unsigned meta_rank = 0, unsigned meta_size = 1)
        : kind(kind), mask(mask), meta_rank(meta_rank), meta_size(meta_size) {}
    MINIGRAD_METHOD thread_group part(unsigned size, const char* file, int line) const;
    friend thread_group tiled_partition(const thread_group&, unsigned, const char*, int);

public:
    MINIGRAD_METHOD void sync(MINIGRAD_HERE) const;
    MINIGRAD_METHOD unsigned long long num_threads() const;
    MINIGRAD_METHOD unsigned long long size() const { return num_threads(); }
    MINIGRAD_METHOD unsigned long long thread_rank() const;
};

class thread_block : public thread_group {
public:
    MINIGRAD_METHOD thread_block() : thread_group(BLOCK) {}
    static MINIGRAD_METHOD void sync(MINIGRAD_HERE) { minigrad::meet_block("thread_block::sync", file, line); }
    static MINIGRAD_METHOD unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static MINIGRAD_METHOD unsigned size() { return num_threads(); }
    static MINIGRAD_METHOD unsigned thread_rank() { return minigrad_self()->index; }
    static MINIGRAD_METHOD dim3 group_index() { return blockIdx; }
    static MINIGRAD_METHOD dim3 thread_index() { return threadIdx; }
    static MINIGRAD_METHOD dim3 dim_threads() { return blockDim; }
    static MINIGRAD_METHOD dim3 group_dim() { return blockDim; }
};
MINIGRAD_INLINE thread_block this_thread_block() { return {}; }

class grid_group : public thread_group {
public:
    MINIGRAD_METHOD grid_group() : thread_group(GRID) {}
    MINIGRAD_METHOD bool is_valid() const { return minigrad_self()->cooperative; }
    MINIGRAD_METHOD void sync(MINIGRAD_HERE) const { minigrad::meet_grid(file, line); }
    static MINIGRAD_METHOD unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static MINIGRAD_METHOD unsigned long long block_rank() {
        return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    static MINIGRAD_METHOD unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
    static MINIGRAD_METHOD unsigned long long size() { return num_threads(); }
    static MINIGRAD_METHOD unsigned long long thread_rank() {
        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
    }
    static MINIGRAD_METHOD dim3 block_index() { return blockIdx; }
    static MINIGRAD_METHOD dim3 dim_blocks() { return gridDim; }
    static MINIGRAD_METHOD dim3 group_dim() { return gridDim; }
};
MINIGRAD_INLINE grid_group this_grid() { return {}; }

// Lanes of a warp, such as those that are active together. Its shuffles take ranks in the group, not lanes.
class coalesced_group : public thread_group {
public:
    MINIGRAD_METHOD explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
        : thread_group(LANES, mask, meta_rank, meta_size) {}
    MINIGRAD_METHOD unsigned num_threads() const { return __builtin_popcount(mask); }
    MINIGRAD_METHOD unsigned size() const { return num_threads(); }
    MINIGRAD_METHOD unsigned thread_rank() const { return minigrad::rank_in(mask); }
    MINIGRAD_METHOD unsigned meta_group_rank() const { return meta_rank; }
    MINIGRAD_METHOD unsigned meta_group_size() const { return meta_size; }
    MINIGRAD_METHOD unsigned get_mask() const { return mask; }
    MINIGRAD_METHOD void sync(MINIGRAD_HERE) const { __syncwarp(mask, file, line); }

    template <class T>
    MINIGRAD_METHOD T shfl(T value, int rank, MINIGRAD_HERE) const {
        return from_lane(value, size() == 32 ? rank : __fns(mask, 0, rank + 1), file, line);
    }
    template <class T>
    MINIGRAD_METHOD T shfl_up(T value, int delta, MINIGRAD_HERE) const {
        return from_neighbour(value, __fns(mask, minigrad::lane(), -(delta + 1)), file, line);
    }
    template <class T>
    MINIGRAD_METHOD T shfl_down(T value, unsigned delta, MINIGRAD_HERE) const {
        return from_neighbour(value, __fns(mask, minigrad::lane(), delta + 1), file, line);
    }
    MINIGRAD_METHOD int any(int predicate, MINIGRAD_HERE) const { return __ballot_sync(mask, predicate, file, line) != 0; }
    MINIGRAD_METHOD int all(int predicate, MINIGRAD_HERE) const {
        return __ballot_sync(mask, predicate, file, line) == mask;
    }
    MINIGRAD_METHOD unsigned ballot(int predicate, MINIGRAD_HERE) const {
        return minigrad::by_rank(mask, __ballot_sync(mask, predicate, file, line));
    }
    template <class T>
    MINIGRAD_METHOD unsigned match_any(T value, MINIGRAD_HERE) const {
        return minigrad::by_rank(mask, __match_any_sync(mask, value, file, line));
    }
    template <class T>
    MINIGRAD_METHOD unsigned match_all(T value, int& same, MINIGRAD_HERE) const {
        return minigrad::by_rank(mask, __match_all_sync(mask, value, &same, file, line));
    }

private:
    template <class T>
    MINIGRAD_METHOD T from_lane(T value, unsigned from, const char* file, int line) const {
        unsigned lanes = mask;
        return minigrad::in_words(value, [=](auto word) { return __shfl_sync(lanes, word, from, 32, file, line); });
    }
    template <class T>
    MINIGRAD_METHOD T from_neighbour(T value, unsigned from, const char* file, int line) const {
        return from_lane(value, from < 32 ? from : minigrad::lane(), file, line);
    }
};
MINIGRAD_INLINE coalesced_group coalesced_threads(MINIGRAD_HERE) { return coalesced_group(__activemask(file, line)); }

// N neighbouring threads of a block.
template <unsigned N, class Parent = void>
class thread_block_tile;

template <unsigned N>
class thread_block_tile<N, void> : public thread_group {
    static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0,
                  "the simulator has tiles of 1, 2, 4, 8, 16 and 32 threads; those of several warps run only on a GPU");
    static MINIGRAD_METHOD unsigned first() { return minigrad::lane() & ~(N - 1); }
    static MINIGRAD_METHOD unsigned lanes() { return ~0u >> (32 - N) << first(); }

public:
    MINIGRAD_METHOD thread_block_tile(unsigned meta_rank, unsigned meta_size)
        : thread_group(LANES, lanes(), meta_rank, meta_size) {}
    static MINIGRAD_METHOD unsigned num_threads() { return N; }
    static MINIGRAD_METHOD unsigned size() { return N; }
    static MINIGRAD_METHOD unsigned thread_rank() { return minigrad::lane() & (N - 1); }
    MINIGRAD_METHOD unsigned meta_group_rank() const { return meta_rank; }
    MINIGRAD_METHOD unsigned meta_group_size() const { return meta_size; }
    static MINIGRAD_METHOD unsigned get_mask() { return lanes(); }
    static MINIGRAD_METHOD void sync(MINIGRAD_HERE) { __syncwarp(lanes(), file, line); }

    template <class T>
    MINIGRAD_METHOD T shfl(T value, int rank, MINIGRAD_HERE) const {
        return minigrad::in_words(value, [=](auto word) { return __shfl_sync(lanes(), word, rank, N, file, line); });
    }
    template <class T>
    MINIGRAD_METHOD T shfl_up(T value, unsigned delta, MINIGRAD_HERE) const {
        return minigrad::in_words(value, [=](auto word) { return __shfl_up_sync(lanes(), word, delta, N, file, line); });
    }
    template <class T>
    MINIGRAD_METHOD T shfl_down(T value, unsigned delta, MINIGRAD_HERE) const {
        return minigrad::in_words(value, [=](auto word) { return __shfl_down_sync(lanes(), word, delta, N, file, line); });
    }
    template <class T>
    MINIGRAD_METHOD T shfl_xor(T value, unsigned bits, MINIGRAD_HERE) const {
        return minigrad::in_words(value, [=](auto word) { return __shfl_xor_sync(lanes(), word, bits, N, file, line); });
    }
    MINIGRAD_METHOD int any(int predicate, MINIGRAD_HERE) const {
        return __ballot_sync(lanes(), predicate, file, line) != 0;
    }
    MINIGRAD_METHOD int all(int predicate, MINIGRAD_HERE) const {
        return __ballot_sync(lanes(), predicate, file, line) == lanes();
    }
    MINIGRAD_METHOD unsigned ballot(int predicate, MINIGRAD_HERE) const {
        return __ballot_sync(lanes(), predicate, file, line) >> first();
    }
    template <class T>
    MINIGRAD_METHOD unsigned match_any(T value, MINIGRAD_HERE) const {
        return __match_any_sync(lanes(), value, file, line) >> first();
    }
    template <class T>
    MINIGRAD_METHOD unsigned match_all(T value, int& same, MINIGRAD_HERE) const {
        return __match_all_sync(lanes(), value, &same, file, line) >> first();
    }
};
template <unsigned N, class Parent>
class thread_block_tile : public thread_block_tile<N> {
public:
    MINIGRAD_METHOD explicit thread_block_tile(const Parent& parent)
        : thread_block_tile<N>(parent.thread_rank() / N, (parent.size() + N - 1) / N) {}
};

namespace tiles {
MINIGRAD_INLINE constexpr bool fits(const thread_block*, unsigned) { return true; }
template <unsigned M>
MINIGRAD_INLINE constexpr bool fits(const thread_block_tile<M>*, unsigned size) { return size < M; }
}  // namespace tiles
template <unsigned N, class Parent>
MINIGRAD_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent& parent) {
    static_assert(tiles::fits((const Parent*)nullptr, N), "a tile is smaller than the tile that it is a part of");
    return thread_block_tile<N, Parent>(parent);
}
MINIGRAD_INLINE thread_block_tile<1> this_thread() { return {0, 1}; }

// Tiles whose size is known only when the kernel runs.
MINIGRAD_METHOD thread_group tiled_partition(const thread_group& parent, unsigned size, MINIGRAD_HERE) {
    return parent.part(size, file, line);
}
MINIGRAD_INLINE coalesced_group tiled_partition(const coalesced_group& parent, unsigned size, MINIGRAD_HERE) {
    unsigned run = minigrad::run_of(parent.get_mask(), size, file, line);
    if (run == parent.get_mask()) return parent;
    return coalesced_group(run, parent.thread_rank() / size, (parent.size() + size - 1) / size);
}
thread_group thread_group::part(unsigned size, const char* file, int line) const {
    if (kind == GRID) minigrad_assert_failed("the grid has no tiles", file, line);
    unsigned run = minigrad::run_of(kind == BLOCK ? minigrad::lanes_of_block() : mask, size, file, line);
    if (kind == LANES && run == mask) return *this;
    return thread_group(LANES, run, thread_rank() / size, (num_threads() + size - 1) / size);
}

void thread_group::sync(const char* file, int line) const {
    if (kind == LANES) __syncwarp(mask, file, line);
    else if (kind == BLOCK) thread_block::sync(file, line);
    else minigrad::meet_grid(file, line);
}
unsigned long long thread_group::num_threads() const {
    if (kind == LANES) return __builtin_popcount(mask);
    return kind == BLOCK ? thread_block::num_threads() : grid_group::num_threads();
}
unsigned long long thread_group::thread_rank() const {
    if (kind == LANES) return minigrad::rank_in(mask);
    return kind == BLOCK ? thread_block::thread_rank() : grid_group::thread_rank();
}

template <class Group> MINIGRAD_INLINE void sync(const Group& group, MINIGRAD_HERE) { group.sync(file, line); }
template <class Group> MINIGRAD_INLINE auto thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> MINIGRAD_INLINE auto group_size(const Group& group) { return group.num_threads(); }
template <class Group, class F, class... A> MINIGRAD_INLINE void invoke_one(const Group& group, F&& f, A&&... a) {
    if (group.thread_rank() == 0) f(static_cast<A&&>(a)...);
}
template <class Group, class F, class... A> MINIGRAD_INLINE auto invoke_one_broadcast(const Group& group, F&& f, A&&... a) {
    decltype(f(static_cast<A&&>(a)...)) value{};
    if (group.thread_rank() == 0) value = f(static_cast<A&&>(a)...);
    return group.shfl(value, 0);
}

// The threads of a tile or a coalesced group with equal labels.
template <class Group, class T>
MINIGRAD_INLINE coalesced_group labeled_partition(const Group& group, T label, MINIGRAD_HERE) {
    static_assert(std::is_integral<T>::value || std::is_pointer<T>::value, "a label is an integer or a pointer");
    unsigned same = __match_any_sync(group.get_mask(), label, file, line), first = __builtin_ctz(same);
    unsigned leaders = __ballot_sync(group.get_mask(), minigrad::lane() == first, file, line);
    return coalesced_group(same, __builtin_popcount(leaders & ~(~0u << first)), __builtin_popcount(leaders));
}
template <class Group>
MINIGRAD_INLINE coalesced_group binary_partition(const Group& group, bool predicate, MINIGRAD_HERE) {
    unsigned mask = group.get_mask(), agree = __ballot_sync(mask, predicate, file, line);
    if (agree == mask || agree == 0) return coalesced_group(mask);
    return coalesced_group(predicate ? agree : mask & ~agree, predicate, 2);
}
template <class Group>
MINIGRAD_INLINE coalesced_group labeled_partition(const Group& group, bool label, MINIGRAD_HERE) {
    return binary_partition(group, label, file, line);
}

}  // namespace cooperative_groups

#undef MINIGRAD_METHOD
