// Warp operations: a rendezvous of the lanes in a mask. Lanes that have returned, or that a block of odd size lacks,
// are not waited for.
#include "shadow_memory.h"

namespace minigrad {

static void disagree(Warp& warp, unsigned mask, int i, int j) {
    const Site &one = *warp.lane[i]->site, &other = *warp.lane[j]->site;
    fail(DIVERGENCE, other.file, other.line,
         "of the lanes in mask 0x%08x, lane %d waits at %s in line %d, lane %d at %s in line %d", mask, i, one.what,
         one.line, j, other.what, other.line);
}

// Release the lanes that wait with this mask, if all of them have arrived.
static bool complete(Worker& worker, Warp& warp, unsigned mask) {
    if (mask & ~(warp.waiting | warp.absent)) return false;
    unsigned lanes = mask & warp.waiting;
    int first = __builtin_ctz(lanes);
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        if (warp.mask[__builtin_ctz(rest)] != mask) return false;  // it waits with other lanes, and may come here later
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        if (warp.finish[i] != warp.finish[first])
            disagree(warp, mask, first, i);
    }
    warp.finish[first](warp.value, warp.argument, lanes);
    bool shuffles = !strncmp(warp.lane[first]->site->what, "__shfl", 6);  // of which only what a lane reads is told
    if (watch.on) (shuffles ? watch_shuffle : watch_skipped_lanes)(worker, warp, lanes);
    warp.waiting &= ~lanes;
    note_progress(worker);
    if (watch.on) watch_warp(&warp - worker.warps, lanes, warp.lane[first]->site->what);
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        warp.lane[i]->thread.result = warp.value[i];
        worker.ready->push_often(warp.lane[i]);
    }
    return true;
}

// A thread of the warp has returned: operations that waited only for it are complete.
void lane_returned(Worker& worker, Warp& warp) {
    for (unsigned rest = warp.waiting; rest; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        if (warp.waiting >> i & 1) complete(worker, warp, warp.mask[i]);
    }
}

// No other thread can run, so all lanes that could reach this __activemask have: they are active together.
bool release_gathering(Worker& worker) {
    unsigned count = worker.gathered;
    for (unsigned i = 0; i < count; ++i) {
        Fiber* one = worker.gathering[i];
        one->thread.result = 0;
        for (unsigned j = 0; j < count; ++j) {
            Fiber* other = worker.gathering[j];
            if (other->thread.index / WARP == one->thread.index / WARP && other->site->line == one->site->line)
                one->thread.result |= 1u << other->thread.index % WARP;
        }
        worker.ready->push_often(one);
    }
    worker.gathered = 0;
    return count;
}

MINIGRAD_STEP(minigrad_exchange, const Site*, site, const WarpOperand*, operand) {
    Worker& worker = *this_worker;
    Fiber* self = wait_at(worker, site);
    MINIGRAD_SAVE(self);
    Warp& warp = worker.warps[self->thread.index / WARP];
    unsigned lane = self->thread.index % WARP, mask = operand->mask;
    if (!(mask >> lane & 1))
        fail(DIVERGENCE, site->file, site->line, "lane %u calls %s with mask 0x%08x, which leaves it out", lane,
             site->what, mask);
    warp.lane[lane] = self;
    warp.finish[lane] = operand->finish;
    warp.mask[lane] = mask;
    warp.argument[lane] = operand->argument;
    warp.value[lane] = operand->value;
    warp.waiting |= 1u << lane;
    complete(worker, warp, mask);
    return next_to_run(worker);
}

MINIGRAD_STEP(minigrad_active_mask, const Site*, site, int, ) {
    Worker& worker = *this_worker;
    Fiber* self = wait_at(worker, site);
    MINIGRAD_SAVE(self);
    worker.gathering[worker.gathered++] = self;
    return next_to_run(worker);
}

}  // namespace minigrad

MINIGRAD_OPERATION(minigrad_exchange)
MINIGRAD_OPERATION(minigrad_active_mask)
