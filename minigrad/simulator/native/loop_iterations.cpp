// The iteration of its loops that each access belongs to. Lanes of a warp form one request only within the same
// iteration.
#include "shadow_memory.h"

namespace minigrad {

constexpr unsigned MAX_NESTED = 32, MAX_LOOPS = 1024;

// A running function, or a loop in it that has iterated: the code from head to end. Unoptimised code keeps the order of
// the text, so a jump backwards to a basic block starts an iteration of the loop that begins there.
struct Region {
    int64_t frame;  // the function's stack frame; frames of its callees lie below
    uint32_t head, end, iteration;
    uint32_t at;    // the basic block entered last
    uint64_t path;  // hash of this region, its iteration, and the regions around it
};

struct LoopNest {
    Region region[MAX_NESTED];
    unsigned depth;
    uint32_t block;

    bool in(int64_t frame) const { return depth && region[depth - 1].frame == frame; }
    Region& top() { return region[depth - 1]; }
    uint64_t path() const { return depth ? region[depth - 1].path : 0; }
};

struct Loop {
    uint32_t head, end;
};

static Loop loops[MAX_LOOPS];
static unsigned known_loops;
static bool loop_grew;  // the end of a known loop has moved further down

// A loop ends at the last backward jump to its head.
static uint32_t end_of_loop(uint32_t head, uint32_t from) {
    Loop* loop = loops;
    while (loop < loops + known_loops && loop->head != head) ++loop;
    if (loop == loops + MAX_LOOPS) return from;
    if (loop == loops + known_loops) *loop = {head, from}, ++known_loops;
    if (loop->end < from) loop->end = from, loop_grew = true;
    return loop->end;
}

static uint64_t mix_hash(uint64_t bits) {
    bits *= 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    return (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9;
}

// Calls of a function from two basic blocks are distinct: diverged lanes that both call it do not run it together. A
// loop is one loop from wherever its lanes enter it.
static uint64_t outer_path(const LoopNest& nest) {
    if (nest.depth < 2) return 1;
    const Region& outer = nest.region[nest.depth - 2];
    bool called = outer.frame != nest.region[nest.depth - 1].frame;
    return called ? mix_hash(outer.path ^ outer.at) : outer.path;
}

static void update_path(LoopNest& nest) {
    uint64_t here = uint64_t(nest.top().head) << 32 | nest.top().iteration;
    nest.top().path = mix_hash(outer_path(nest) ^ here);
}

static void push(LoopNest& nest, int64_t frame, uint32_t head, uint32_t end, uint32_t iteration) {
    if (nest.depth == MAX_NESTED) return;
    nest.region[nest.depth++] = {frame, head, end, iteration, head, 0};
    update_path(nest);
}

static void enter(LoopNest& nest, int64_t frame, uint32_t pc) {
    while (nest.depth && nest.top().frame < frame) --nest.depth;  // functions that have returned
    uint32_t before = nest.in(frame) ? nest.top().at : 0;
    if (pc <= before) {
        uint32_t end = end_of_loop(pc, before);
        while (nest.in(frame) && nest.top().head > pc) --nest.depth;
        if (nest.in(frame) && nest.top().head == pc) ++nest.top().iteration, update_path(nest);
        else push(nest, frame, pc, end, 1);
    } else {
        while (nest.in(frame) && nest.top().end < pc) --nest.depth;
        if (!nest.in(frame)) push(nest, frame, pc, ~0u, 0);
    }
    if (nest.in(frame)) nest.top().at = pc;
}

// nests: by thread, and by block where blocks take turns.
static void number_all(LoopNest* nests, uint64_t count, uint64_t threads) {
    for (uint64_t i = 0; i < count; ++i)
        if (nests[i].depth) nests[i].depth = 0;
    for (Record* record = watch.records; record < watch.records + watch.count; ++record) {
        LoopNest& nest = nests[(record->block * threads + record->thread) % count];
        if (nest.block != record->block) nest.depth = 0;
        nest.block = record->block;
        if (record->access == ENTER) enter(nest, record->offset, record->pc);
        record->iteration = nest.path();
    }
}

// Repeat if a loop's end moved after earlier rows had used it.
void number_iterations() {
    uint64_t threads = uint64_t(launch.block.x) * launch.block.y * launch.block.z;
    uint64_t count = (watch.turns < watch.blocks ? watch.turns : watch.blocks) * threads;
    LoopNest* nests = watch.count ? static_cast<LoopNest*>(calloc(count, sizeof(LoopNest))) : nullptr;
    if (!nests) {
        watch.full |= watch.count > 0;  // no memory to number them is no memory to count them
        return;
    }
    known_loops = 0;
    do loop_grew = false, number_all(nests, count, threads);
    while (loop_grew);
    free(nests);
}

}  // namespace minigrad
