// What is remembered of an element beyond the two accesses of a kind in its Cell and its Pair. Where only barriers of
// whole blocks and warps make an order, two stand for all: who is ordered with both is so with the others. A fence, and
// a __syncwarp of some lanes, order one thread and not its neighbour, so in files that have these the others are kept.
#include <stdlib.h>

#include "watch.h"

namespace minigrad {

constexpr unsigned MAX_KEPT = 64;  // of one kind at one element

struct Kept {
    Kept* older;
    Stamp at;
    uint64_t serial;  // of an atomic
    uint32_t lanes;   // of the warp, that did the same at the same clock
};

static Table<Kept*>* kept() { return static_cast<Table<Kept*>*>(watch.kept); }

static uint64_t address_of(const Variable& variable, const Cell* cell) {
    return reinterpret_cast<uint64_t>(variable.start) + (uint64_t(cell - variable.cells) << variable.shift);
}

static Kept* kept_at(const Variable& variable, const Cell* cell, Access kind) {
    Kept** first = watch.kept ? kept()->find(address_of(variable, cell), kind) : nullptr;
    return first ? *first : nullptr;
}

// Whether the later one stands for the earlier: the same thread's, or one that a barrier of their block has between.
static bool stands_for(const Stamp& later, const Kept& earlier) {
    bool alone = !(earlier.lanes & (earlier.lanes - 1));
    if (later.epoch == earlier.at.epoch) return alone && later.thread() == earlier.at.thread();
    return earlier.at.epoch >= watch.first_epoch && later.epoch > earlier.at.epoch;
}

static bool joins(const Stamp& one, const Stamp& other) {
    return one.epoch == other.epoch && one.thread() / WARP == other.thread() / WARP && one.clock() == other.clock() &&
           one.pc == other.pc && one.relaxed == other.relaxed && one.narrow == other.narrow;
}

static void keep(const Variable& variable, const Cell* cell, Access kind, const Stamp& stamp, uint64_t serial) {
    if (!stamp.epoch) return;
    Worker& worker = *watch.worker;
    worker.critical = 1;
    if (!watch.kept) watch.kept = zeros(sizeof(Table<Kept*>));
    Kept** at = &kept()->make(address_of(variable, cell), kind);
    uint32_t lane = 1u << stamp.thread() % WARP;
    for (unsigned count = 0; count < MAX_KEPT; ++count, at = &(*at)->older) {
        Kept* one = *at;
        if (one && kind == READ && joins(one->at, stamp)) {
            one->lanes |= lane;
            break;
        }
        if (one && !stands_for(stamp, *one)) continue;
        if (!one) *at = one = static_cast<Kept*>(zeros(sizeof(Kept)));
        *one = {one->older, stamp, serial, lane};
        break;
    }
    leave_critical(worker);
}

// Calls a function of each, with the serial number.
template <class F>
static void each_kept(const Variable& variable, const Cell* cell, Access kind, F compare_with) {
    for (const Kept* one = kept_at(variable, cell, kind); one; one = one->older)
        for (uint32_t rest = one->lanes; rest; rest &= rest - 1) {
            Stamp stamp = one->at;
            stamp.place += __builtin_ctz(rest) - stamp.thread() % WARP;
            compare_with(stamp, one->serial);
        }
}

void forget_kept() {
    if (!watch.kept) return;
    for (uint64_t i = 0; i < kept()->room; ++i)
        for (Kept *one = kept()->rows[i].value, *older; one; one = older) older = one->older, free(one);
    free(kept()->rows);
    free(watch.kept);
}

}  // namespace minigrad
