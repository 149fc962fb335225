// The findings of a watched launch: each place once, and counted; and the values of writes that race.
#include <string.h>

#include "shadow_memory.h"

namespace minigrad {

static Finding* add_finding(ProblemKind kind, unsigned thread) {
    if (watch.found == MAX_FINDINGS) return ++watch.lost, nullptr;
    Finding& finding = watch.findings[watch.found++];
    memset(&finding, 0, sizeof finding);
    finding.kind = kind;
    finding.variable = -1;
    finding.count = 1;
    finding.block = number_of(watch.block);
    finding.thread = thread;
    return &finding;
}

// The new finding; nullptr for a known one. Problems are merged by kind, place and variable, and counted.
static Finding* find(ProblemKind kind, Access access, int variable, uint32_t pc, uint32_t other_pc,
                     Finding** either = nullptr) {
    for (unsigned i = 0; i < watch.found; ++i) {
        Finding& known = watch.findings[i];
        if (known.pc == pc && known.kind == kind && known.other_pc == other_pc && known.variable == variable) {
            if (either) *either = &known;
            return ++known.count, nullptr;
        }
    }
    Finding* finding = add_finding(kind, watch.worker->current->thread.index);
    if (either) *either = finding;
    if (!finding) return nullptr;
    finding->access = access;
    finding->variable = variable;
    finding->pc = pc;
    finding->other_pc = other_pc;
    return finding;
}

// The same for a place where threads wait, with the call's own file and line. either: set to the known one, too.
static Finding* find_call(ProblemKind kind, const Site& site, unsigned thread, Finding** either = nullptr) {
    for (unsigned i = 0; i < watch.found; ++i) {
        Finding& known = watch.findings[i];
        if (known.kind == kind && known.line == site.line && !strcmp(known.file, site.file)) {
            if (either) *either = &known;
            return ++known.count, nullptr;
        }
    }
    Finding* finding = add_finding(kind, thread);
    if (!finding) return nullptr;
    finding->file = site.file, finding->line = site.line, finding->type = site.what;
    if (either) *either = finding;
    return finding;
}

// Each thread that is not at the barrier has returned, by a statement, or has gone around the barrier to the end.
void watch_missed_barrier(Worker& worker) {
    unsigned first[2], count[2] = {};
    for (unsigned i = worker.threads; i-- > 0;) {
        if (!(worker.warps[i / WARP].absent >> i % WARP & 1)) continue;
        bool returned = watch.calls[i] >= 0;
        first[returned] = i, ++count[returned];
    }
    for (int returned = 0; returned < 2; ++returned) {
        if (!count[returned]) continue;
        Finding* finding = find_call(returned ? MISSED : SKIPPED, *(*worker.barrier->head)->site, first[returned]);
        if (finding) finding->offset = count[returned];
    }
}

// Lanes of the mask have gone around the call, to the end of the kernel; those that have returned do not count.
void watch_skipped_lanes(Worker& worker, Warp& warp, unsigned lanes) {
    unsigned leader = __builtin_ctz(lanes), first = 0, count = 0;
    for (unsigned rest = warp.mask[leader] & ~lanes; rest; rest &= rest - 1) {
        unsigned thread = (&warp - worker.warps) * WARP + __builtin_ctz(rest);
        if (thread < worker.threads && watch.calls[thread] < 0 && !count++) first = thread;
    }
    Finding* finding = count ? find_call(SKIPPED, *warp.lane[leader]->site, first) : nullptr;
    if (finding) finding->offset = count, finding->extent = WARP;
}

// The lane reads from one that its mask names and that is no more, or from one that is not in its mask: then it gets
// NaN as of an absent lane, with the number of the finding, so that the result shows which shuffle it came from.
void watch_shuffle(Worker& worker, Warp& warp, unsigned lanes) {
    unsigned base = (&warp - worker.warps) * WARP;
    for (unsigned i = 0; i < WARP; ++i) {
        unsigned from = warp.argument[i];
        if (!(lanes >> i & 1) || lanes >> from & 1) continue;
        bool named = warp.mask[i] >> from & 1;
        Finding *either = nullptr, *finding = find_call(named ? RETURNED : UNNAMED, *warp.lane[i]->site, base + i, &either);
        if (finding) finding->other_thread = base + from, finding->other_block = finding->block;
        if (named || !either) continue;
        either->offset = warp.value[i] = NOBODY ^ (either - watch.findings) % 32 * 0x0000000200000002;
    }
}

// The writes in doubt have been made: a race is harmless where all of them have left the value that was there.
RARE void end_doubts() {
    bool differs = memcmp(reinterpret_cast<const void*>(watch.doubted), watch.before, watch.doubted_bytes);
    while (watch.doubts) watch.doubt[--watch.doubts]->differs |= differs;
}

RARE static void begin_doubts(uint64_t address, unsigned bytes) {
    watch.doubted = address;
    watch.doubted_bytes = bytes;
    if (bytes <= sizeof watch.before) memcpy(watch.before, reinterpret_cast<const void*>(address), bytes);
    else while (watch.doubts) watch.doubt[--watch.doubts]->differs = true;
}

static void doubt(Finding* finding) {
    if (watch.doubts == MAX_DOUBTS) finding->differs = true;
    else watch.doubt[watch.doubts++] = finding;
}

}  // namespace minigrad
