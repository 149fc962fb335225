// Happens-before by fences and atomics, as in a lock, or where the last block to increment a counter adds up what all
// blocks have written. The model is release/acquire over vector clocks. A thread's fence takes a snapshot of what the
// thread did and of what it knows through barriers and acquired releases. A later atomic or volatile write of the
// thread, or of one that met it at a barrier since, publishes the snapshot at a word: the release. An atomic on that
// word, or a volatile read of it, acquires the release for its thread, and for all that meet this thread at a barrier
// afterwards. A fence or an atomic with block scope orders nothing for other blocks. No fence is required after the
// acquiring atomic: CUDA's own samples do without one where a barrier follows. Except in a cooperative launch, for what
// other blocks have released: there a block reads again, step after step, what it has read before and what its L1 cache
// may still hold. Only a fence drops that.
#include <string.h>

#include "shadow_memory.h"

namespace minigrad {

enum Scope { BLOCK, DEVICE };

// A thread's last fence: its epoch, the clocks of the thread's warp, and the releases known to the thread.
struct FenceSnapshot {
    uint32_t epoch, clock[WARP];
    VectorClock known;
};

// The union of the fences of one epoch, for all threads that have met at a barrier since.
struct BarrierSnapshot {
    uint32_t epoch, clock[MAX_THREADS];
    VectorClock known;
};

// What the threads of one block know.
struct BlockClocks {
    VectorClock known[MAX_THREADS], common;  // known since the last barrier, by thread; known to all since that barrier
    VectorClock found[MAX_THREADS];          // of a cooperative launch: acquired without a fence so far
    FenceSnapshot at_fence[2][MAX_THREADS];
    BarrierSnapshot at_barrier[2];
};

struct ReleaseState {
    Table<VectorClock> words;      // by address: what the releasing threads themselves knew
    Table<Release*> releases;      // by address and block
    Table<uint32_t> published[2];  // by address and block: the epoch of `at_barrier` that was last released there
};

static ReleaseState* release_state() { return static_cast<ReleaseState*>(watch.release_state); }

static BlockClocks& block_clocks() {
    if (!watch.releases_known) watch.releases_known = static_cast<BlockClocks*>(zeros(sizeof(BlockClocks)));
    return *watch.releases_known;
}

// The same address of shared memory is another word in each block.
static uint64_t word_at(uint64_t address) {
    return in_shared(address) ? address ^ uint64_t(watch.block + 1) << 47 : address;
}

static void take_snapshot(FenceSnapshot& snapshot, unsigned thread) {
    snapshot.epoch = watch.epoch;
    memcpy(snapshot.clock, watch.vector_clock[thread], sizeof snapshot.clock);
    snapshot.clock[thread % WARP] = watch.clock[thread];
    snapshot.known.count = 0;
    join(snapshot.known, block_clocks().common);
    join(snapshot.known, block_clocks().known[thread]);
}

void on_fence(bool device) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    if (!watch.release_state) watch.release_state = zeros(sizeof(ReleaseState));
    unsigned thread = worker.current->thread.index;
    BlockClocks& own = block_clocks();
    if (device) join(own.known[thread], own.found[thread]), own.found[thread].count = 0;
    take_snapshot(own.at_fence[BLOCK][thread], thread);
    if (device) take_snapshot(own.at_fence[DEVICE][thread], thread);
    ++watch.clock[thread];  // later accesses lie outside the snapshot
    watch.dirty = true;
    leave_critical(worker);
}

void acquire_at(uint64_t address, bool device) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    uint64_t word = word_at(address), now = watch.serial;
    if (VectorClock* passed_on = release_state()->words.find(word, 0)) {
        unsigned thread = worker.current->thread.index;
        VectorClock& own = block_clocks().known[thread];
        VectorClock& known = launch.cooperative ? block_clocks().found[thread] : own;
        join(own, {word, now, 0, 0, 0});
        join(known, {word, 0, device ? now : 0, 0, 0});
        for (uint32_t i = 0; i < passed_on->count; ++i) {
            ClockEntry one = passed_on->at[i];
            if (one.block ? one.block != watch.block + 1 : !device) continue;
            VectorClock& to = one.block ? own : known;  // what the block itself released needs no fence of the device
            one.block = 0;
            join(to, one);
        }
    }
    leave_critical(worker);
}

// Sorted by epoch, the latest first: a thread may release now what it fenced before an earlier barrier.
static void publish(uint64_t word, uint32_t epoch, uint32_t thread, uint32_t clock, Scope scope, bool alone = false) {
    Release** last = &release_state()->releases.make(word, watch.block);
    while (*last && (*last)->epoch > epoch) last = &(*last)->older;
    bool again = *last && (*last)->epoch == epoch && (*last)->thread == thread && (*last)->clock == clock;
    if (again && (*last)->device >= (scope == DEVICE)) return;
    Release* release = static_cast<Release*>(zeros(sizeof(Release)));
    *release = {*last, ++watch.serial, epoch, thread, clock, scope == DEVICE, alone};
    *last = release;
}

// A thread that reads the value of a volatile write and then writes comes after it, so this write has a clock of its
// own.
void begin_volatile_write() {
    ++watch.clock[watch.worker->current->thread.index];
    watch.dirty = true;
}
void end_volatile_write(uint64_t address) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    unsigned thread = worker.current->thread.index;
    release_state()->words.make(word_at(address), 0);
    publish(word_at(address), watch.epoch, thread, watch.clock[thread]++, DEVICE, true);
    leave_critical(worker);
    release_at(address, true);
}

static void publish_clock(uint64_t word, const VectorClock& known, Scope scope) {
    VectorClock& passed_on = release_state()->words.make(word, 0);
    for (uint32_t i = 0; i < known.count; ++i) {
        ClockEntry one = known.at[i];
        if (one.word == word) continue;  // whoever acquires at this word acquires these releases too
        if (scope == DEVICE) raise_to(one.through, one.own), raise_to(one.through, one.others);
        one.block = scope == DEVICE ? 0 : watch.block + 1;
        join(passed_on, one);
    }
}

static void release(uint64_t word, unsigned thread, Scope scope) {
    const FenceSnapshot& at_fence = block_clocks().at_fence[scope][thread];
    const BarrierSnapshot& at_barrier = block_clocks().at_barrier[scope];
    if (at_fence.epoch == watch.epoch) {
        unsigned first = thread / WARP * WARP;
        for (unsigned lane = 0; lane < WARP; ++lane)
            if (at_fence.clock[lane]) publish(word, at_fence.epoch, first + lane, at_fence.clock[lane], scope);
        publish_clock(word, at_fence.known, scope);
    } else if (of_this_block(at_barrier.epoch)) {
        uint32_t& published = release_state()->published[scope].make(word, watch.block);
        if (published == at_barrier.epoch) return;
        published = at_barrier.epoch;
        for (unsigned i = 0; i < MAX_THREADS; ++i)
            if (at_barrier.clock[i]) publish(word, at_barrier.epoch, i, at_barrier.clock[i], scope);
        publish_clock(word, at_barrier.known, scope);
    }
}

void release_at(uint64_t address, bool device) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    unsigned thread = worker.current->thread.index;
    const FenceSnapshot& block = block_clocks().at_fence[BLOCK][thread];
    const FenceSnapshot& wide = block_clocks().at_fence[DEVICE][thread];
    bool same = block.epoch == wide.epoch && block.clock[thread % WARP] == wide.clock[thread % WARP];
    if (device) release(word_at(address), thread, DEVICE);
    if (!device || !same) release(word_at(address), thread, BLOCK);
    leave_critical(worker);
}

// Empty a snapshot of an earlier epoch.
template <class T>
static void begin(T& snapshot) {
    if (snapshot.epoch == watch.epoch) return;
    snapshot.epoch = watch.epoch;
    memset(snapshot.clock, 0, sizeof snapshot.clock);
    snapshot.known.count = 0;
}

static void join(uint32_t* clocks, const uint32_t* others, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
        if (clocks[i] < others[i]) clocks[i] = others[i];
}

// One lane learns what another lane of its warp knows, and may release what that lane has fenced.
static void join_lane(unsigned from, unsigned to) {
    BlockClocks& all = block_clocks();
    join(all.known[to], all.known[from]);
    for (auto& at_fence : all.at_fence) {
        if (at_fence[from].epoch != watch.epoch) continue;
        begin(at_fence[to]);
        join(at_fence[to].clock, at_fence[from].clock, WARP);
        join(at_fence[to].known, at_fence[from].known);
    }
}

// The lanes of a __syncwarp: the first one joins the clocks of the others, then all take the result.
void join_warp_clocks(unsigned first, unsigned lanes) {
    unsigned one = first + __builtin_ctz(lanes), others = lanes & (lanes - 1);
    for (unsigned rest = others; rest; rest &= rest - 1) join_lane(first + __builtin_ctz(rest), one);
    for (unsigned rest = others; rest; rest &= rest - 1) join_lane(one, first + __builtin_ctz(rest));
}

// All threads of the block meet. Called before the next epoch begins.
void join_block_clocks() {
    BlockClocks& all = block_clocks();
    unsigned threads = watch.worker->threads;
    for (unsigned i = 0; i < threads; ++i) join(all.common, all.known[i]), all.known[i].count = 0;
    for (unsigned scope = BLOCK; scope <= DEVICE; ++scope) {
        BarrierSnapshot& at_barrier = all.at_barrier[scope];
        for (unsigned i = 0; i < threads; ++i) {
            const FenceSnapshot& at_fence = all.at_fence[scope][i];
            if (at_fence.epoch != watch.epoch) continue;
            begin(at_barrier);
            join(at_barrier.clock + i / WARP * WARP, at_fence.clock, WARP);
            join(at_barrier.known, at_fence.known);
        }
    }
}

void reset_block_clocks() {
    if (!watch.releases_known) return;
    for (VectorClock& known : watch.releases_known->known) known.count = 0;
    watch.releases_known->common.count = 0;
}

static bool covered(const VectorClock& known, uint32_t block, const Stamp& access) {
    for (uint32_t i = 0; i < known.count; ++i) {
        Release** last = release_state()->releases.find(known.at[i].word, block);
        if (last && covers(*last, known.at[i], block == watch.block, access)) return true;
    }
    return false;
}

// True if the access was released and the present thread has acquired that release.
bool ordered_by_release(const Stamp& access, unsigned self) {
    uint32_t block = block_of(access.epoch);
    const BlockClocks* own = watch.releases_known;
    bool over = own && (covered(own->known[self], block, access) || covered(own->common, block, access));
    watch.order_dependent |= over;
    return over;
}

static bool includes_atomic(const VectorClock& known, uint64_t cell, uint64_t serial) {
    for (uint32_t i = 0; i < known.count; ++i) {
        const ClockEntry& one = known.at[i];
        if (cell - one.word < 8 && (one.own >= serial || one.others >= serial || one.through >= serial)) return true;
    }
    return false;
}

// True if the present thread has acquired a word in this cell after the atomic with that serial number.
bool ordered_by_atomics(const char* at, uint64_t serial, unsigned self) {
    uint64_t cell = word_at(reinterpret_cast<uint64_t>(at));
    const BlockClocks* own = watch.releases_known;
    bool over = own && (includes_atomic(own->known[self], cell, serial) || includes_atomic(own->common, cell, serial));
    watch.order_dependent |= over;
    return over;
}

void free_block_clocks(BlockClocks* clocks) {
    if (!clocks) return;
    for (auto& known : clocks->known) free(known.at);
    for (auto& found : clocks->found) free(found.at);
    for (auto& scope : clocks->at_fence)
        for (FenceSnapshot& at_fence : scope) free(at_fence.known.at);
    for (BarrierSnapshot& at_barrier : clocks->at_barrier) free(at_barrier.known.at);
    free(clocks->common.at);
    free(clocks);
}

void free_release_state() {
    if (!watch.release_state) return;
    ReleaseState& all = *release_state();
    for (uint64_t i = 0; i < all.words.room; ++i) free(all.words.rows[i].value.at);
    for (uint64_t i = 0; i < all.releases.room; ++i)
        for (Release *release = all.releases.rows[i].value, *older; release; release = older)
            older = release->older, free(release);
    free(all.words.rows);
    free(all.releases.rows);
    for (auto& published : all.published) free(published.rows);
    free(watch.release_state);
}

}  // namespace minigrad
