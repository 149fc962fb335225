// Order by fences and atomics, as in a lock, or where the last block to count itself adds up what all have written. A
// thread that has passed a __threadfence() and then changes a word by an atomic or a volatile write releases what it did
// before; one that later does an atomic on that word, or reads it as volatile, has acquired it. Between blocks the
// picture is coarse, so that what is right is never reported: an acquirer knows all that the block did up to the
// barriers around the release.
#include <stdlib.h>
#include <string.h>

#include "watch.h"

namespace minigrad {

struct Release {
    uint32_t block, epoch, thread, clock;
};

// What has been released at one word.
struct Word {
    uint64_t address;
    uint32_t epoch, clock[MAX_THREADS];  // by threads of the block that runs, while this epoch lasts
    Release* by;                         // the last release of each block
    uint32_t count, room;
    uint32_t reader, read;               // a block, + 1, that has acquired the first `read` of these
};

constexpr unsigned MAX_WORDS = 1024;

struct Fences {
    uint32_t passed[MAX_THREADS];               // the block, + 1, in which the thread has passed a fence
    uint32_t epoch[MAX_THREADS];                // in which `known` holds
    uint32_t known[MAX_THREADS][MAX_THREADS];   // the clocks of others as far as a thread knows them
    Word* words[MAX_WORDS];
    uint32_t acquirer;                          // the block, + 1, that has acquired these
    Release* acquired;                          // by block; thread is + 1, 0: nothing
};

static Fences* fences() { return static_cast<Fences*>(watch.fences); }

static uint32_t* known_now(unsigned thread) {
    uint32_t* known = fences()->known[thread];
    if (fences()->epoch[thread] != watch.epoch) memset(known, 0, sizeof fences()->known[thread]);
    fences()->epoch[thread] = watch.epoch;
    return known;
}

static void raise(uint32_t* clocks, const uint32_t* others) {
    for (unsigned i = 0; i < MAX_THREADS; ++i)
        if (clocks[i] < others[i]) clocks[i] = others[i];
}

static void* zeros(size_t bytes) {
    void* memory = calloc(1, bytes);
    if (!memory) fail(SYSTEM, nullptr, 0, "the system has no memory to follow the fences");
    return memory;
}

void pass_fence() {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    if (!watch.fences) {
        watch.fences = zeros(sizeof(Fences));
        fences()->acquired = static_cast<Release*>(zeros(launch.blocks * sizeof(Release)));
    }
    fences()->passed[worker.current->thread.index] = watch.block + 1;
    leave_critical(worker);
}

// The word at an address; where nothing has been released there, a new one or none.
static Word* word_at(uint64_t address, bool make) {
    for (unsigned i = 0, slot = address / 4 % MAX_WORDS; i < MAX_WORDS; ++i, slot = (slot + 1) % MAX_WORDS) {
        Word*& word = fences()->words[slot];
        if (!word && make) word = static_cast<Word*>(zeros(sizeof(Word))), word->address = address;
        if (!word || word->address == address) return word;
    }
    return nullptr;
}

static void acquire(Word& word, unsigned thread) {
    Fences& all = *fences();
    if (word.epoch == watch.epoch) raise(known_now(thread), word.clock);
    if (all.acquirer != watch.block + 1) {
        for (uint32_t i = 0; i < watch.block; ++i) all.acquired[i].thread = 0;
        all.acquirer = watch.block + 1;
    }
    if (word.reader != watch.block + 1) word.reader = watch.block + 1, word.read = 0;
    for (; word.read < word.count; ++word.read) all.acquired[word.by[word.read].block] = word.by[word.read];
}

static void release(Word& word, unsigned thread) {
    if (word.epoch != watch.epoch) memset(word.clock, 0, sizeof word.clock);
    word.epoch = watch.epoch;
    raise(word.clock, known_now(thread));
    word.clock[thread] = watch.clock[thread];
    if (!word.count || word.by[word.count - 1].block != watch.block) {
        if (word.count == word.room) {
            word.room = word.room ? 2 * word.room : 16;
            word.by = static_cast<Release*>(realloc(word.by, word.room * sizeof(Release)));
            if (!word.by) fail(SYSTEM, nullptr, 0, "the system has no memory to follow the fences");
        }
        ++word.count;
    }
    word.by[word.count - 1] = {watch.block, watch.epoch, thread + 1, watch.clock[thread]++};
    watch.dirty = true;
}

void acquire_at(uint64_t address) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    if (Word* word = word_at(address, false)) acquire(*word, worker.current->thread.index);
    leave_critical(worker);
}

void release_at(uint64_t address) {
    Worker& worker = *watch.worker;
    unsigned thread = worker.current->thread.index;
    if (fences()->passed[thread] != watch.block + 1) return;
    worker.critical = 1;
    if (Word* word = word_at(address, true)) release(*word, thread);
    leave_critical(worker);
}

// Lanes that meet in a __syncwarp learn what the others know by fences, too.
void share_known(unsigned first, unsigned lanes) {
    uint32_t joint[MAX_THREADS] = {};
    for (unsigned rest = lanes; rest; rest &= rest - 1) raise(joint, known_now(first + __builtin_ctz(rest)));
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        memcpy(known_now(first + __builtin_ctz(rest)), joint, sizeof joint);
}

// Whether an access of another thread was released, and that acquired by the present one.
bool released(const Stamp& before, unsigned self) {
    if (before.epoch >= watch.first_epoch)
        return fences()->epoch[self] == watch.epoch && before.clock() <= fences()->known[self][before.thread()];
    if (fences()->acquirer != watch.block + 1) return false;
    const Release& known = fences()->acquired[block_of(before.epoch)];
    if (!known.thread || before.epoch > known.epoch) return false;
    return before.epoch < known.epoch || before.thread() + 1 != known.thread || before.clock() <= known.clock;
}

void forget_fences() {
    if (!watch.fences) return;
    for (Word* word : fences()->words)
        if (word) free(word->by), free(word);
    free(fences()->acquired);
    free(watch.fences);
}

}  // namespace minigrad
