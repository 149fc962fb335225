// Who has released what at which word, and how much of that others know; see fences.cpp.
#include <stdlib.h>

#include "watch.h"

namespace minigrad {

// What a thread did up to this clock in this phase of its block, and all that its block did in the phases before. Or
// alone what it did at this clock.
struct Released {
    Released* older;  // at the same word, by the same block
    uint64_t serial;  // counts the releases of the launch
    uint32_t epoch, thread, clock;
    bool device;      // to other blocks too
    bool alone;
};

// How far the releases at a word are known: those of one's own block up to the serial `own`, what other blocks have
// released to the device up to `others`, and all up to `through`, which somebody knew and passed on.
struct Horizon {
    uint64_t word, own, others, through;
    uint32_t block;  // where it waits at a word to be acquired: by this block alone, + 1; 0: by all
};

struct Horizons {
    Horizon* at;
    uint32_t count, room;
};

static void* zeros(size_t bytes) {
    void* memory = calloc(1, bytes);
    if (!memory) fail(SYSTEM, nullptr, 0, "the system has no memory to follow the fences");
    return memory;
}

static void raise(uint64_t& one, uint64_t other) {
    if (one < other) one = other;
}

static void learn(Horizons& known, const Horizon& more) {
    Horizon *one = known.at, *end = known.at + known.count;
    while (one < end && (one->word != more.word || one->block != more.block)) ++one;
    if (one < end) {
        raise(one->own, more.own);
        raise(one->others, more.others);
        raise(one->through, more.through);
        return;
    }
    if (known.count == known.room) {
        known.room = known.room ? 2 * known.room : 4;
        known.at = static_cast<Horizon*>(realloc(known.at, known.room * sizeof(Horizon)));
        if (!known.at) fail(SYSTEM, nullptr, 0, "the system has no memory to follow the fences");
    }
    known.at[known.count++] = more;
}

static void learn(Horizons& known, const Horizons& more) {
    for (uint32_t i = 0; i < more.count; ++i) learn(known, more.at[i]);
}

// Whether a block's releases at a word, within the horizon, say that an access of that block is over.
static bool tells(const Released* release, const Horizon& horizon, bool own, const Stamp& access) {
    for (; release && release->epoch >= access.epoch; release = release->older) {
        uint64_t limit = own ? horizon.own : release->device ? horizon.others : 0;
        if (release->serial > limit && release->serial > horizon.through) continue;
        if (release->epoch > access.epoch && !release->alone) return true;
        if (release->epoch != access.epoch || release->thread != access.thread()) continue;
        if (release->alone ? release->clock == access.clock() : release->clock >= access.clock()) return true;
    }
    return false;
}

// An open table by an address and a number. Its values are zero at first, and move when it grows.
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
