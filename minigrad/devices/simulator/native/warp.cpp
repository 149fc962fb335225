// Warp operations: a rendezvous of the lanes that a mask names. Lanes that have returned, or that a block of odd size
// never had, are not waited for.
#include "runtime.h"

namespace minigrad {

// Let the lanes go that wait with this mask, if all are there.
static bool complete(Worker& worker, Warp& warp, unsigned mask) {
    if (mask & ~(warp.waiting | warp.absent)) return false;
    unsigned lanes = mask & warp.waiting;
    int first = __builtin_ctz(lanes);
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        if (warp.mask[__builtin_ctz(rest)] != mask) return false;  // it waits with others, and may come here later
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        if (warp.finish[i] != warp.finish[first])
            fail(DIVERGENCE, warp.lane[i]->wait.file, warp.lane[i]->wait.line,
                 "the lanes of mask 0x%08x are at different operations: lane %d at %s in line %d, lane %d at %s in line %d",
                 mask, first, warp.lane[first]->wait.what, warp.lane[first]->wait.line, i, warp.lane[i]->wait.what,
                 warp.lane[i]->wait.line);
    }
    warp.finish[first](warp.value, warp.argument, lanes);
    warp.waiting &= ~lanes;
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        Fiber* fiber = warp.lane[__builtin_ctz(rest)];
        if (fiber != current) worker.ready.push(fiber);
    }
    return true;
}

// A thread returns; others may have waited for no one else.
void lane_returned(Worker& worker, Fiber* fiber) {
    Warp& warp = worker.warps[fiber->index / WARP];
    unsigned bit = 1u << fiber->index % WARP;
    warp.absent |= bit;
    for (unsigned rest = warp.waiting; rest; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        if ((warp.waiting >> i & 1) && (warp.mask[i] & bit)) complete(worker, warp, warp.mask[i]);
    }
}

// Nobody else can run, so whoever of a warp could reach this __activemask has: they are active together.
bool release_gathering(Worker& worker) {
    unsigned count = worker.gathered;
    for (unsigned i = 0; i < count; ++i) {
        Fiber* one = worker.gathering[i];
        one->result = 0;
        for (unsigned j = 0; j < count; ++j) {
            Fiber* other = worker.gathering[j];
            if (other->index / WARP == one->index / WARP && other->wait.line == one->wait.line)
                one->result |= 1u << other->index % WARP;
        }
        worker.ready.push(one);
    }
    worker.gathered = 0;
    return count;
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT uint64_t minigrad_exchange(unsigned mask, uint64_t value, unsigned argument, Finish* finish,
                                           const char* name, const char* file, int line) {
    Fiber* self = current;
    Worker& worker = *self->worker;
    Warp& warp = worker.warps[self->index / WARP];
    unsigned lane = self->index % WARP, bit = 1u << lane;
    if (!(mask & bit)) fail(DIVERGENCE, file, line, "lane %u calls %s with mask 0x%08x, which leaves it out", lane, name, mask);
    self->wait = {name, file, line};
    warp.lane[lane] = self;
    warp.finish[lane] = finish;
    warp.mask[lane] = mask;
    warp.argument[lane] = argument;
    warp.value[lane] = value;
    warp.waiting |= bit;
    if (complete(worker, warp, mask)) self->wait.what = nullptr;
    else suspend(self);
    return warp.value[lane];
}

MINIGRAD_EXPORT unsigned minigrad_active_mask(const char* file, int line) {
    Fiber* self = current;
    self->wait = {"__activemask", file, line};
    Worker& worker = *self->worker;
    worker.gathering[worker.gathered++] = self;
    suspend(self);
    return self->result;
}
