// The releases at each word, and the vector clocks that say which of them a thread has acquired; see
// release_acquire.cpp.
#include <stdlib.h>

#include "shadow_memory.h"

namespace minigrad {

// One release: everything that a thread did in this epoch up to this clock, and everything that its block did in
// earlier epochs. With `alone`, only what the thread did at exactly this clock.
struct Release {
    Release* older;   // at the same word, by the same block
    uint64_t serial;  // counts the releases of the launch
    uint32_t epoch, thread, clock;
    bool device;  // visible to other blocks too
    bool alone;
};

// One entry of a vector clock: the releases known at a word. Those of the thread's own block up to the serial `own`,
// those of other blocks with device scope up to `others`, and all releases up to `through`, which arrived transitively.
struct ClockEntry {
    uint64_t word, own, others, through;
    uint32_t block;  // of an entry that waits at a word: the only block that may acquire it, + 1; 0: any block
};

struct VectorClock {
    ClockEntry* at;
    uint32_t count, room;
};

static void* zeros(size_t bytes) {
    void* memory = calloc(1, bytes);
    if (!memory) fail(SYSTEM, nullptr, 0, "the system has no memory to follow the fences");
    return memory;
}

static void raise_to(uint64_t& one, uint64_t other) {
    if (one < other) one = other;
}

static void join(VectorClock& known, const ClockEntry& more) {
    ClockEntry *one = known.at, *end = known.at + known.count;
    while (one < end && (one->word != more.word || one->block != more.block)) ++one;
    if (one < end) {
        raise_to(one->own, more.own);
        raise_to(one->others, more.others);
        raise_to(one->through, more.through);
        return;
    }
    if (known.count == known.room) {
        known.room = known.room ? 2 * known.room : 4;
        known.at = static_cast<ClockEntry*>(realloc(known.at, known.room * sizeof(ClockEntry)));
        if (!known.at) fail(SYSTEM, nullptr, 0, "the system has no memory to follow the fences");
    }
    known.at[known.count++] = more;
}

static void join(VectorClock& known, const VectorClock& more) {
    for (uint32_t i = 0; i < more.count; ++i) join(known, more.at[i]);
}

// True if the releases of a block at a word that the entry knows put an access of that block in the past.
static bool covers(const Release* release, const ClockEntry& entry, bool own, const Stamp& access) {
    for (; release && release->epoch >= access.epoch; release = release->older) {
        uint64_t limit = own ? entry.own : release->device ? entry.others : 0;
        if (release->serial > limit && release->serial > entry.through) continue;
        if (release->epoch > access.epoch && !release->alone) return true;
        if (release->epoch != access.epoch || release->thread != access.thread()) continue;
        if (release->alone ? release->clock == access.clock() : release->clock >= access.clock()) return true;
    }
    return false;
}

// An open-addressing hash table with the key (address, number). New values are zero; values move when the table grows.
template <class T>
struct Table {
    struct Row {
        uint64_t address, number;
        T value;
    };
    Row* rows;
    uint64_t count, room;

    Row* row(uint64_t address, uint64_t number) const {
        uint64_t at = (address / 4 + number * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9 >> 20;
        for (;; ++at) {
            Row* one = &rows[at % room];
            if (!one->address || (one->address == address && one->number == number)) return one;
        }
    }
    T* find(uint64_t address, uint64_t number) const {
        Row* one = room ? row(address, number) : nullptr;
        return one && one->address ? &one->value : nullptr;
    }
    T& make(uint64_t address, uint64_t number) {
        if (2 * count >= room) grow();
        Row* one = row(address, number);
        if (!one->address) ++count;
        one->address = address, one->number = number;
        return one->value;
    }
    void grow() {
        Table bigger = {nullptr, count, room ? 2 * room : 64};
        bigger.rows = static_cast<Row*>(zeros(bigger.room * sizeof(Row)));
        for (uint64_t i = 0; i < room; ++i)
            if (rows[i].address) *bigger.row(rows[i].address, rows[i].number) = rows[i];
        free(rows);
        *this = bigger;
    }
};

}  // namespace minigrad
