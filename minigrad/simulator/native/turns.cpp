// Which turn of which loop each access was in: the lanes of a warp that loop together are put together by it.
#include "watch.h"

namespace minigrad {

constexpr unsigned MAX_NESTED = 32, MAX_LOOPS = 1024;

// A function that is running, or a loop in it that has turned: the code from head to end. Where nothing is optimised,
// code lies in the order of the text, and a step back to a stretch is a turn of the loop that begins there.
struct Region {
    int64_t frame;  // where the function's stack is; those that it calls lie below
    uint32_t head, end, turn;
    uint32_t at;    // the stretch of code entered last
    uint64_t path;  // of this region, its turn, and those around it, in one number
};

struct Nest {
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

static Nest nests[MAX_THREADS];
static Loop loops[MAX_LOOPS];
static unsigned known_loops;
static bool longer;  // some loop has turned out to be longer than it was taken for

// A loop ends where the last of all steps back to its head began.
static uint32_t end_of_loop(uint32_t head, uint32_t from) {
    Loop* loop = loops;
    while (loop < loops + known_loops && loop->head != head) ++loop;
    if (loop == loops + MAX_LOOPS) return from;
    if (loop == loops + known_loops) *loop = {head, from}, ++known_loops;
    if (loop->end < from) loop->end = from, longer = true;
    return loop->end;
}

static uint64_t spread(uint64_t bits) {
    bits *= 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    return (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9;
}

// Calls of a function from two stretches of another are two: lanes that part, and call it on both sides, do not run it
// together. A loop is one, wherever lanes come to it from.
static uint64_t around_top(const Nest& nest) {
    if (nest.depth < 2) return 1;
    const Region& outer = nest.region[nest.depth - 2];
    bool called = outer.frame != nest.region[nest.depth - 1].frame;
    return called ? spread(outer.path ^ outer.at) : outer.path;
}

static void name_path(Nest& nest) {
    uint64_t here = uint64_t(nest.top().head) << 32 | nest.top().turn;
    nest.top().path = spread(around_top(nest) ^ here);
}

static void push(Nest& nest, int64_t frame, uint32_t head, uint32_t end, uint32_t turn) {
    if (nest.depth == MAX_NESTED) return;
    nest.region[nest.depth++] = {frame, head, end, turn, head, 0};
    name_path(nest);
}

static void enter(Nest& nest, int64_t frame, uint32_t pc) {
    while (nest.depth && nest.top().frame < frame) --nest.depth;  // functions that have returned
    uint32_t before = nest.in(frame) ? nest.top().at : 0;
    if (pc <= before) {
        uint32_t end = end_of_loop(pc, before);
        while (nest.in(frame) && nest.top().head > pc) --nest.depth;
        if (nest.in(frame) && nest.top().head == pc) ++nest.top().turn, name_path(nest);
        else push(nest, frame, pc, end, 1);
    } else {
        while (nest.in(frame) && nest.top().end < pc) --nest.depth;
        if (!nest.in(frame)) push(nest, frame, pc, ~0u, 0);
    }
    if (nest.in(frame)) nest.top().at = pc;
}

static void walk() {
    for (Nest& nest : nests) nest.depth = 0;
    for (Record* record = watch.records; record < watch.records + watch.count; ++record) {
        Nest& nest = nests[record->thread];
        if (nest.block != record->block) nest.depth = 0;
        nest.block = record->block;
        if (record->access == ENTER) enter(nest, record->offset, record->pc);
        record->turn = nest.path();
    }
}

// Again, if the end of a loop became known after it had been asked for.
void number_turns() {
    known_loops = 0;
    do longer = false, walk();
    while (longer);
}

}  // namespace minigrad
