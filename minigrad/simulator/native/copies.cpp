// Asynchronous copies from global to shared memory: until the thread that started one has waited for it, its target
// holds NaN, and any access there is early.
#include <stdlib.h>
#include <string.h>

#include "shadow_memory.h"

namespace minigrad {

constexpr unsigned PIECE = 16;  // bytes

struct Copy {
    char* to;
    unsigned bytes, group;
    char value[PIECE];
};

struct Copies {
    Copy* at;
    unsigned first, count, room;  // [first, count) are under way
    unsigned group;               // that is open
};

static Copies& own_copies() { return watch.copies[watch.worker->current->thread.index]; }

static Copy& add_copy(Worker& worker) {
    worker.critical = 1;
    if (!watch.copies) watch.copies = static_cast<Copies*>(zeros(MAX_THREADS * sizeof(Copies)));
    Copies& own = own_copies();
    if (own.count == own.room && own.first > own.room / 2) {  // more than half has arrived: use its place
        memmove(own.at, own.at + own.first, (own.count - own.first) * sizeof(Copy));
        own.count -= own.first;
        own.first = 0;
    }
    if (own.count == own.room) {
        own.room = own.room ? 2 * own.room : 16;
        own.at = static_cast<Copy*>(realloc(own.at, own.room * sizeof(Copy)));
        if (!own.at) abort();
    }
    leave_critical(worker);
    return own.at[own.count++];
}

// Change the last write of each element there.
template <class F>
static void each_write(const char* to, unsigned bytes, F change) {
    uint8_t number = watch.slot[(reinterpret_cast<uint64_t>(to) - watch.shared) / 16];
    if (number == MAX_VARIABLES) return;  // outside: reported at the write
    Variable& variable = watch.variable[number];
    uint64_t offset = to - variable.start;
    for (uint64_t i = offset >> variable.shift; i <= (offset + bytes - 1) >> variable.shift && i < variable.count; ++i)
        change(variable.cells[i].write);
}

void forget_copies() {
    for (unsigned i = 0; i < MAX_THREADS; ++i) watch.copies[i].first = watch.copies[i].count = watch.copies[i].group = 0;
}

void free_copies(Copies* copies) {
    for (unsigned i = 0; copies && i < MAX_THREADS; ++i) free(copies[i].at);
    free(copies);
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT void minigrad_note_copy(void* target, size_t bytes) {
    char* to = static_cast<char*>(target);
    if (!in_shared(reinterpret_cast<uint64_t>(to))) return;
    for (size_t at = 0; at < bytes; at += PIECE) {
        unsigned size = bytes - at < PIECE ? bytes - at : PIECE;
        Copy& copy = add_copy(*watch.worker);
        copy.to = to + at, copy.bytes = size, copy.group = own_copies().group;
        memcpy(copy.value, copy.to, size);
    }
    memset(to, 0xff, bytes);
    each_write(to, bytes, [](Stamp& write) { write.narrow = true; });
}

MINIGRAD_EXPORT void minigrad_note_commit() {
    if (watch.copies) ++own_copies().group;
}

MINIGRAD_EXPORT void minigrad_note_arrival(unsigned pending) {
    if (!watch.copies) return;
    Copies& own = own_copies();
    unsigned thread = watch.worker->current->thread.index;
    for (; own.first < own.count && own.at[own.first].group + pending < own.group; ++own.first) {
        const Copy& copy = own.at[own.first];
        memcpy(copy.to, copy.value, copy.bytes);
        each_write(copy.to, copy.bytes, [thread](Stamp& write) {
            write.epoch = watch.epoch;
            write.thread_clock = thread | watch.clock[thread] << THREAD_BITS;
            write.narrow = false;
        });
    }
    if (own.first == own.count) own.first = own.count = 0;
    note_progress(*watch.worker);
}
