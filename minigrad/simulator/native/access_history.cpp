// Accesses beyond the two of a kind in a shadow cell. While only __syncthreads and a whole warp's __syncwarp order
// accesses, two of them stand for all: an access ordered after both comes after the others too. A fence, or a
// __syncwarp of some lanes, orders one thread but not its neighbor, so files that contain these keep more.
#include <stdlib.h>

#include "shadow_memory.h"

namespace minigrad {

constexpr unsigned MAX_HISTORY = 64;  // of one kind at one element

struct PastAccess {
    PastAccess* older;
    Stamp at;
    uint64_t serial;  // of an atomic
    uint32_t lanes;   // lanes of the warp that made the same access at the same clock
};

static Table<PastAccess*>* history() { return static_cast<Table<PastAccess*>*>(watch.history); }

static uint64_t address_of(const Variable& variable, const Cell* cell) {
    return reinterpret_cast<uint64_t>(variable.start) + (uint64_t(cell - variable.cells) << variable.shift);
}

static PastAccess* history_at(const Variable& variable, const Cell* cell, Access kind) {
    PastAccess** first = watch.history ? history()->find(address_of(variable, cell), kind) : nullptr;
    return first ? *first : nullptr;
}

// True if an access ordered after `later` is ordered after `earlier` too: the same thread's, or with a barrier of the
// block between the two.
static bool subsumes(const Stamp& later, const PastAccess& earlier) {
    bool alone = !(earlier.lanes & (earlier.lanes - 1));
    if (later.epoch == earlier.at.epoch) return alone && later.thread() == earlier.at.thread();
    return of_this_block(earlier.at.epoch) && later.epoch > earlier.at.epoch;
}

static bool same_instruction(const Stamp& one, const Stamp& other) {
    return one.epoch == other.epoch && one.thread() / WARP == other.thread() / WARP && one.clock() == other.clock() &&
           one.pc == other.pc && one.relaxed == other.relaxed && one.narrow == other.narrow;
}

static void add_to_history(const Variable& variable, const Cell* cell, Access kind, const Stamp& stamp,
                           uint64_t serial) {
    if (!stamp.epoch) return;
    Worker& worker = *watch.worker;
    worker.critical = 1;
    if (!watch.history) watch.history = zeros(sizeof(Table<PastAccess*>));
    PastAccess** at = &history()->make(address_of(variable, cell), kind);
    uint32_t lane = 1u << stamp.thread() % WARP;
    for (unsigned count = 0; count < MAX_HISTORY; ++count, at = &(*at)->older) {
        PastAccess* one = *at;
        if (one && kind == READ && same_instruction(one->at, stamp)) {
            one->lanes |= lane;
            break;
        }
        if (one && !subsumes(stamp, *one)) continue;
        if (!one) *at = one = static_cast<PastAccess*>(zeros(sizeof(PastAccess)));
        *one = {one->older, stamp, serial, lane};
        break;
    }
    leave_critical(worker);
}

// Call a function for each access, with its serial number.
template <class F>
static void each_past(const Variable& variable, const Cell* cell, Access kind, F compare_with) {
    for (const PastAccess* one = history_at(variable, cell, kind); one; one = one->older)
        for (uint32_t rest = one->lanes; rest; rest &= rest - 1) {
            Stamp stamp = one->at;
            stamp.thread_clock += __builtin_ctz(rest) - stamp.thread() % WARP;
            compare_with(stamp, one->serial);
        }
}

void free_history() {
    if (!watch.history) return;
    for (uint64_t i = 0; i < history()->room; ++i)
        for (PastAccess *one = history()->rows[i].value, *older; one; one = older) older = one->older, free(one);
    free(history()->rows);
    free(watch.history);
}

}  // namespace minigrad
