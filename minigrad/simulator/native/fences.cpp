// Order by fences and atomics, as in a lock, or where the last block to count itself adds up what all have written. A
// fence of a thread closes what it did, and what it knows by barriers and by releases of others. An atomic or a
// volatile write that it does later, or another one that it has met at a barrier since, releases this at a word. Who
// does an atomic on that word later, or reads it as volatile, has acquired it, and so have those who meet him at a
// barrier. A fence or an atomic of a block alone orders nothing for other blocks. That a fence stands behind the atomic
// that acquires is not asked: CUDA's own samples do without, where a barrier follows.
#include <string.h>

#include "watch.h"

namespace minigrad {

enum Scope { BLOCK, DEVICE };

// What a thread's last fence has closed: the phase it was in, the clocks of its warp, and what was known.
struct Closed {
    uint32_t epoch, clock[WARP];
    Horizons known;
};

// What the fences of a phase have closed, for all who have met at a barrier since.
struct Met {
    uint32_t epoch, clock[MAX_THREADS];
    Horizons known;
};

struct Fences {
    Horizons known[MAX_THREADS], common;  // of each thread, since the barrier; of all that were at it
    Closed closed[2][MAX_THREADS];
    Met met[2];
    Table<Horizons> words;       // what those passed on who released at an address
    Table<Released*> releases;   // by address and block
    Table<uint32_t> told[2];     // by address, the phase of `met` that was released there last
};

static Fences* fences() { return static_cast<Fences*>(watch.fences); }

// A word of shared memory is another one in each block.
static uint64_t word_at(uint64_t address) {
    return in_shared(address) ? address ^ uint64_t(watch.block + 1) << 47 : address;
}

static void close(Closed& closed, unsigned thread) {
    closed.epoch = watch.epoch;
    memcpy(closed.clock, watch.seen[thread], sizeof closed.clock);
    closed.clock[thread % WARP] = watch.clock[thread];
    closed.known.count = 0;
    learn(closed.known, fences()->common);
    learn(closed.known, fences()->known[thread]);
}

void pass_fence(bool device) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    if (!watch.fences) watch.fences = zeros(sizeof(Fences));
    unsigned thread = worker.current->thread.index;
    close(fences()->closed[BLOCK][thread], thread);
    if (device) close(fences()->closed[DEVICE][thread], thread);
    ++watch.clock[thread];  // what it does from here on is not closed
    watch.dirty = true;
    leave_critical(worker);
}

void acquire_at(uint64_t address, bool device) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    uint64_t word = word_at(address), now = watch.serial;
    if (Horizons* passed_on = fences()->words.find(word, 0)) {
        Horizons& known = fences()->known[worker.current->thread.index];
        learn(known, {word, now, device ? now : 0, 0, 0});
        for (uint32_t i = 0; i < passed_on->count; ++i) {
            Horizon one = passed_on->at[i];
            if (one.block ? one.block != watch.block + 1 : !device) continue;
            one.block = 0;
            learn(known, one);
        }
    }
    leave_critical(worker);
}

// Those of later phases come first: a thread may release now what was closed at an earlier barrier.
static void publish(uint64_t word, uint32_t epoch, uint32_t thread, uint32_t clock, Scope scope, bool alone = false) {
    Released** last = &fences()->releases.make(word, watch.block);
    while (*last && (*last)->epoch > epoch) last = &(*last)->older;
    bool again = *last && (*last)->epoch == epoch && (*last)->thread == thread && (*last)->clock == clock;
    if (again && (*last)->device >= (scope == DEVICE)) return;
    Released* release = static_cast<Released*>(zeros(sizeof(Released)));
    *release = {*last, ++watch.serial, epoch, thread, clock, scope == DEVICE, alone};
    *last = release;
}

// Who reads what a volatile write has left there, and writes himself, comes later: the write has a clock of its own.
void begin_write() {
    ++watch.clock[watch.worker->current->thread.index];
    watch.dirty = true;
}
void end_write(uint64_t address) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    unsigned thread = worker.current->thread.index;
    fences()->words.make(word_at(address), 0);
    publish(word_at(address), watch.epoch, thread, watch.clock[thread]++, DEVICE, true);
    leave_critical(worker);
    release_at(address, true);
}

static void pass_on(uint64_t word, const Horizons& known, Scope scope) {
    Horizons& passed_on = fences()->words.make(word, 0);
    for (uint32_t i = 0; i < known.count; ++i) {
        Horizon one = known.at[i];
        if (one.word == word) continue;  // who acquires it here, acquires that too
        if (scope == DEVICE) raise(one.through, one.own), raise(one.through, one.others);
        one.block = scope == DEVICE ? 0 : watch.block + 1;
        learn(passed_on, one);
    }
}

static void release(uint64_t word, unsigned thread, Scope scope) {
    const Closed& closed = fences()->closed[scope][thread];
    const Met& met = fences()->met[scope];
    if (closed.epoch == watch.epoch) {
        unsigned first = thread / WARP * WARP;
        for (unsigned lane = 0; lane < WARP; ++lane)
            if (closed.clock[lane]) publish(word, closed.epoch, first + lane, closed.clock[lane], scope);
        pass_on(word, closed.known, scope);
    } else if (met.epoch >= watch.first_epoch) {
        uint32_t& told = fences()->told[scope].make(word, 0);
        if (told == met.epoch) return;
        told = met.epoch;
        for (unsigned i = 0; i < MAX_THREADS; ++i)
            if (met.clock[i]) publish(word, met.epoch, i, met.clock[i], scope);
        pass_on(word, met.known, scope);
    }
}

void release_at(uint64_t address, bool device) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    unsigned thread = worker.current->thread.index;
    const Closed &block = fences()->closed[BLOCK][thread], &wide = fences()->closed[DEVICE][thread];
    bool same = block.epoch == wide.epoch && block.clock[thread % WARP] == wide.clock[thread % WARP];
    if (device) release(word_at(address), thread, DEVICE);
    if (!device || !same) release(word_at(address), thread, BLOCK);
    leave_critical(worker);
}

// Empty, if it is of an earlier phase.
template <class T>
static void begin(T& closed) {
    if (closed.epoch == watch.epoch) return;
    closed.epoch = watch.epoch;
    memset(closed.clock, 0, sizeof closed.clock);
    closed.known.count = 0;
}

static void join(uint32_t* clocks, const uint32_t* others, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
        if (clocks[i] < others[i]) clocks[i] = others[i];
}

// One thread learns what another of its warp knows, and releases what that one has closed.
static void share(unsigned from, unsigned to) {
    Fences& all = *fences();
    learn(all.known[to], all.known[from]);
    for (auto& closed : all.closed) {
        if (closed[from].epoch != watch.epoch) continue;
        begin(closed[to]);
        join(closed[to].clock, closed[from].clock, WARP);
        learn(closed[to].known, closed[from].known);
    }
}

// Lanes that meet in a __syncwarp: the first gathers from the others what all of them then have.
void share_known(unsigned first, unsigned lanes) {
    unsigned one = first + __builtin_ctz(lanes), others = lanes & (lanes - 1);
    for (unsigned rest = others; rest; rest &= rest - 1) share(first + __builtin_ctz(rest), one);
    for (unsigned rest = others; rest; rest &= rest - 1) share(one, first + __builtin_ctz(rest));
}

// All threads meet; called before the next phase begins.
void meet_known() {
    Fences& all = *fences();
    unsigned threads = watch.worker->threads;
    for (unsigned i = 0; i < threads; ++i) learn(all.common, all.known[i]), all.known[i].count = 0;
    for (unsigned scope = BLOCK; scope <= DEVICE; ++scope) {
        Met& met = all.met[scope];
        for (unsigned i = 0; i < threads; ++i) {
            const Closed& closed = all.closed[scope][i];
            if (closed.epoch != watch.epoch) continue;
            begin(met);
            join(met.clock + i / WARP * WARP, closed.clock, WARP);
            learn(met.known, closed.known);
        }
    }
}

void begin_known() {
    for (Horizons& known : fences()->known) known.count = 0;
    fences()->common.count = 0;
}

static bool shown(const Horizons& known, uint32_t block, const Stamp& access) {
    for (uint32_t i = 0; i < known.count; ++i) {
        Released** last = fences()->releases.find(known.at[i].word, block);
        if (last && tells(*last, known.at[i], block == watch.block, access)) return true;
    }
    return false;
}

// Whether an access of another thread was released, and that acquired by the present one.
bool released(const Stamp& access, unsigned self) {
    uint32_t block = block_of(access.epoch);
    bool over = shown(fences()->known[self], block, access) || shown(fences()->common, block, access);
    watch.turnable |= over;
    return over;
}

static bool reaches(const Horizons& known, uint64_t cell, uint64_t serial) {
    for (uint32_t i = 0; i < known.count; ++i) {
        const Horizon& one = known.at[i];
        if (cell - one.word < 8 && (one.own >= serial || one.others >= serial || one.through >= serial)) return true;
    }
    return false;
}

// Whether the present thread has acquired a word, at which a cell lies, after an atomic of that serial number on it.
bool passed(const char* at, uint64_t serial, unsigned self) {
    uint64_t cell = word_at(reinterpret_cast<uint64_t>(at));
    bool over = reaches(fences()->known[self], cell, serial) || reaches(fences()->common, cell, serial);
    watch.turnable |= over;
    return over;
}

void forget_fences() {
    if (!watch.fences) return;
    Fences& all = *fences();
    for (auto& known : all.known) free(known.at);
    for (auto& scope : all.closed)
        for (Closed& closed : scope) free(closed.known.at);
    for (Met& met : all.met) free(met.known.at);
    free(all.common.at);
    for (uint64_t i = 0; i < all.words.room; ++i) free(all.words.rows[i].value.at);
    for (uint64_t i = 0; i < all.releases.room; ++i)
        for (Released *release = all.releases.rows[i].value, *older; release; release = older)
            older = release->older, free(release);
    free(all.words.rows);
    free(all.releases.rows);
    for (auto& told : all.told) free(told.rows);
    free(watch.fences);
}

}  // namespace minigrad
