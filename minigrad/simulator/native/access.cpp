// One access of one thread: is it inside its array, is it ordered with those of others, was the element written.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "watch.h"

namespace minigrad {

// Of a volatile access or an atomic, of an atomic for its block alone; and of a struct that is copied, which has bytes
// between its members that nobody writes.
enum Manner { PLAIN, RELAXED, IN_BLOCK, COPY };

static inline Stamp stamp_now(uint32_t pc, Manner manner) {
    unsigned thread = watch.worker->current->thread.index;
    return {watch.epoch, thread | watch.clock[thread] << THREAD_BITS, pc, manner == RELAXED || manner == IN_BLOCK,
            manner == IN_BLOCK};
}

static inline bool same_thread(const Stamp& a, const Stamp& b) { return a.thread() == b.thread(); }

static inline bool same_warp(const Stamp& a, const Stamp& b) {
    return a.epoch == b.epoch && a.thread() / WARP == b.thread() / WARP;
}

// Whether barriers have the earlier access end before the present one.
static inline bool by_barriers(const Stamp& before, const Stamp& now, const Variable& variable) {
    if (before.epoch != now.epoch) return before.epoch >= watch.first_epoch || !before.epoch || variable.shared;
    if (same_thread(before, now)) return true;
    return same_warp(before, now) && before.clock() <= watch.seen[now.thread()][before.thread() % WARP];
}

// Whether the earlier access is over when the present one happens, however the threads are scheduled.
static inline bool ordered(const Stamp& before, const Stamp& now, const Variable& variable) {
    return by_barriers(before, now, variable) || (watch.fences && released(before, now.thread()));
}

uint32_t block_of(uint32_t epoch) {
    uint32_t low = 0, high = watch.block;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (watch.block_epochs[middle] <= epoch) low = middle;
        else high = middle - 1;
    }
    return low;
}

// What is found many times is told once, with a count.
static Finding* find(Wrong wrong, Access access, int variable, uint32_t pc, uint32_t other_pc) {
    for (unsigned i = 0; i < watch.found; ++i) {
        Finding& known = watch.findings[i];
        if (known.pc == pc && known.wrong == wrong && known.other_pc == other_pc && known.variable == variable)
            return ++known.count, nullptr;
    }
    if (watch.found == MAX_FINDINGS) return ++watch.lost, nullptr;
    Finding& finding = watch.findings[watch.found++];
    memset(&finding, 0, sizeof finding);
    finding.wrong = wrong;
    finding.access = access;
    finding.variable = variable;
    finding.count = 1;
    finding.pc = pc;
    finding.other_pc = other_pc;
    finding.block = number_of(watch.block);
    finding.thread = watch.worker->current->thread.index;
    return &finding;
}

RARE static void race(const Stamp& before, Access kind, const Stamp& now, Access access, Variable& variable,
                      Cell* cell) {
    int number = &variable - watch.variable;
    Finding* finding = find(RACE, access, number, now.pc, before.pc);
    if (!finding) return;
    finding->offset = int64_t(cell - variable.cells) << variable.shift;
    finding->other_access = kind;
    finding->other_thread = before.thread();
    finding->other_block = number_of(block_of(before.epoch));
}

// Of different blocks, and atomic only for one of them.
static inline bool apart(const Stamp& before, const Stamp& now) {
    return (before.narrow || now.narrow) && before.epoch < watch.first_epoch;
}

// A flag, where both are volatile accesses or atomics: one thread changes it while others look at it. So may lanes of a
// warp do in shared memory, but there it is the mistake of old texts, which took volatile for an order.
RARE static bool flag(const Stamp& before, Access kind, const Stamp& now, Access access, const Variable& variable) {
    if (apart(before, now)) return false;
    watch.turnable |= !variable.shared && before.epoch < watch.first_epoch;  // what a block finds there depends on who came first
    return kind == access ? kind == ATOMIC : !variable.shared || kind == ATOMIC || access == ATOMIC;
}

static inline bool fine(const Stamp& before, Access kind, const Stamp& now, Access access, const Variable& variable) {
    bool relaxed = before.relaxed && now.relaxed;
    return (relaxed && flag(before, kind, now, access, variable)) || ordered(before, now, variable);
}

static inline void compare(const Stamp& before, Access kind, const Stamp& now, Access access, Variable& variable,
                           Cell* cell) {
    if (!fine(before, kind, now, access, variable)) race(before, kind, now, access, variable, cell);
}

// Those who change a word by atomics come one after the other: after one's own atomic, those before it are over.
static void compare(const Stamp& before, uint64_t serial, const Stamp& now, Access access, Variable& variable,
                    Cell* cell) {
    if (fine(before, ATOMIC, now, access, variable)) return;
    const char* at = variable.start + ((cell - variable.cells) << variable.shift);
    if (!watch.fences || !passed(at, serial, now.thread())) race(before, ATOMIC, now, access, variable, cell);
}

RARE static void compare_kept(const Stamp& now, Access access, Variable& variable, Cell* cell) {
    if (access != READ)
        each_kept(variable, cell, READ, [&](const Stamp& read, uint64_t) {
            compare(read, READ, now, access, variable, cell);
        });
    each_kept(variable, cell, ATOMIC, [&](const Stamp& atomic, uint64_t serial) {
        compare(atomic, serial, now, access, variable, cell);
    });
}

// One that is ordered before the new one is replaced by it: who comes after this one comes after that.
static inline void remember(Cell* cell, const Stamp& now, const Variable& variable) {
    Stamp* two = cell->reads;
    bool first = ordered(two[0], now, variable);
    if (first || ordered(two[1], now, variable)) {
        two[!first] = now;
    } else if (same_warp(two[0], two[1])) {
        if (watch.careful) keep(variable, cell, READ, two[1], 0);
        two[1] = now;
    } else if (watch.careful) {
        keep(variable, cell, READ, now, 0);
    }
}

// The same of atomics, of which the latest counts: those before it are over for whoever does one after them.
static void remember(Pair& atomics, const Stamp& now, const Variable& variable, const Cell* cell) {
    bool first = by_barriers(atomics.at[0], now, variable) || same_warp(atomics.at[0], now);
    if (watch.careful && !by_barriers(atomics.at[!first], now, variable))
        keep(variable, cell, ATOMIC, atomics.at[!first], atomics.serial[!first]);
    atomics.at[!first] = now;
    atomics.serial[!first] = ++watch.serial;
}

// Whether the element has been written.
template <Access access>
static inline bool check(Variable& variable, Cell* cell, const Stamp& now) {
    if (access == READ && cell->reads[0].epoch == now.epoch && cell->reads[0].place == now.place) return true;
    Pair* atomics = variable.atomics ? variable.atomics + (cell - variable.cells) : nullptr;
    compare(cell->write, WRITE, now, access, variable, cell);
    if (access != READ)
        for (const Stamp& read : cell->reads) compare(read, READ, now, access, variable, cell);
    for (unsigned i = 0; atomics && i < 2; ++i)
        compare(atomics->at[i], atomics->serial[i], now, access, variable, cell);
    if (watch.kept) compare_kept(now, access, variable, cell);
    bool written = cell->write.epoch >= watch.first_epoch || (atomics && atomics->at[0].epoch >= watch.first_epoch);
    if (access == READ) remember(cell, now, variable);
    if (access == WRITE) cell->write = now;
    if (access == ATOMIC && !atomics) atomics = make_atomics(variable) + (cell - variable.cells);
    if (access == ATOMIC) remember(*atomics, now, variable, cell);
    return written;
}

RARE static void uninitialised(Variable& variable, Cell* cell, Access access, uint32_t pc) {
    Finding* finding = find(UNINITIALISED, access, &variable - watch.variable, pc, 0);
    if (finding) finding->offset = int64_t(cell - variable.cells) << variable.shift;
}

// More than there is room for: the checks go on, the record does not.
static bool make_room(Worker& worker) {
    worker.critical = 1;
    uint64_t room = watch.room ? 2 * watch.room : 1 << 16;
    void* more = room <= watch.limit ? realloc(watch.records, room * sizeof(Record)) : nullptr;
    if (more) watch.records = static_cast<Record*>(more), watch.room = room;
    else watch.full = true, watch.recording = false;
    leave_critical(worker);
    return more;
}

static void record(Access access, int variable, int64_t offset, uint32_t bytes, uint32_t pc) {
    Worker& worker = *watch.worker;
    if (watch.count == watch.room && !make_room(worker)) return;
    unsigned thread = worker.current->thread.index;
    watch.records[watch.count++] = {
        pc, number_of(watch.block), watch.epoch - watch.first_epoch, watch.sync[thread],
        uint16_t(thread), uint8_t(access), uint8_t(variable), bytes, offset, 0};
}

// What one instruction moves of a struct: no more than its alignment allows. That is not known here, but the array has
// one, of at least a word, and a vector or a struct that was given another one is spoken of in the text.
static unsigned piece(const Variable& variable, uint64_t offset, unsigned bytes) {
    unsigned most = 1u << __builtin_ctzll(offset | bytes | 16);
    while (most > 4 && most > variable.align && !(most & (watch.vectors | watch.vectors / 4))) most /= 2;
    return most;
}

static void record_struct(Access access, Variable& variable, int64_t offset, uint32_t bytes, uint32_t pc) {
    unsigned step = piece(variable, offset, bytes);
    for (uint32_t at = 0; at < bytes; at += step)
        if (watch.recording) record(access, &variable - watch.variable, offset + at, step, pc);
}

// The place of a page among those that are open, or where it is to be put. There are more places than are ever taken.
static char*& place_of(uint64_t page) {
    uint64_t at = page / page_size();
    while (watch.opened[at % PLACES] && watch.opened[at % PLACES] != reinterpret_cast<char*>(page)) ++at;
    return watch.opened[at % PLACES];
}

// Make memory behind an array accessible, so that the kernel can go on; it reads as NaN there.
static void open_pages(uint64_t address, unsigned bytes) {
    uint64_t size = page_size();
    for (uint64_t page = address / size * size; page < address + bytes; page += size) {
        char*& place = place_of(page);
        if (place) continue;
        char* memory = reinterpret_cast<char*>(page);
        if (watch.opens == MAX_OPENED || mprotect(memory, size, PROT_READ | PROT_WRITE)) return;
        memset(memory, 0xff, size);
        place = memory, ++watch.opens;
    }
}

// Which variable, from one to another, an address beside them is nearest to.
static int nearest(uint64_t address, unsigned first, unsigned last) {
    int nearest = -1;
    uint64_t least = ~uint64_t(0);
    for (unsigned i = first; i < last; ++i) {
        const Variable& variable = watch.variable[i];
        uint64_t start = reinterpret_cast<uint64_t>(variable.start), end = start + variable.bytes;
        uint64_t distance = address < start ? start - address : address >= end ? address - end : 0;
        if (distance < least) least = distance, nearest = i;
    }
    return nearest;
}

static int nearest_shared(uint64_t address) {
    return nearest(address, watch.buffers + watch.devices, watch.variables);
}
static int nearest_device(uint64_t address) {
    return nearest(address, watch.buffers, watch.buffers + watch.devices);
}

// The variable of the file that an address is an element of by an index that has become 2^32 too large; -1: none.
static int wrapped(uint64_t address) {
    for (unsigned i = watch.buffers; i < watch.variables; ++i) {
        const Variable& variable = watch.variable[i];
        uint64_t start = reinterpret_cast<uint64_t>(variable.start) + (uint64_t(variable.element) << 32);
        if (start - address < GUARD) return i;
    }
    return -1;
}

// The __device__ variable that an address is in; -1: none.
static int device_at(uint64_t address) {
    for (unsigned i = watch.buffers; i < watch.buffers + watch.devices; ++i)
        if (address - reinterpret_cast<uint64_t>(watch.variable[i].start) < watch.variable[i].bytes) return i;
    return -1;
}

static bool beside_device(uint64_t address) {
    for (unsigned i = 0; i < watch.devices; ++i)
        for (const char* zone : watch.zones[i].start)
            if (address - reinterpret_cast<uint64_t>(zone) < watch.variable[watch.buffers + i].bytes) return true;
    return false;
}

// Whether more of the variable's own surroundings can be made accessible there: of a buffer its window, of shared memory
// the pages on either side. What else there is lies among others.
static bool can_open(uint64_t address, int number) {
    if (number < 0) return false;
    const Variable& variable = watch.variable[number];
    if (variable.shared) return near_shared(address) && !in_shared(address);
    uint64_t pages = (variable.bytes + page_size() - 1) / page_size();
    return unsigned(number) < watch.buffers && address - reinterpret_cast<uint64_t>(variable.start) >= pages * page_size();
}

RARE static void outside(uint64_t address, unsigned bytes, Access access, int number, uint32_t pc) {
    Finding* finding = find(OUTSIDE, access, number, pc, 0);
    int64_t start = number < 0 ? 0 : reinterpret_cast<int64_t>(watch.variable[number].start);
    if (finding) finding->offset = int64_t(address) - start;
    if (access == WRITE) note_progress(*watch.worker);
    if (can_open(address, number)) open_pages(address, bytes);
}

// Neither a buffer nor shared memory: a local array, a constant, the arguments; or wrong.
static void elsewhere(uint64_t address, unsigned bytes, Access access, uint32_t pc) {
    const Fiber& fiber = *watch.worker->current;
    if (address - reinterpret_cast<uint64_t>(fiber.stack) < STACK_PAGES * page_size()) return;
    if (address - reinterpret_cast<uint64_t>(watch.worker) < sizeof(Worker)) return;  // what a shuffle exchanges
    if (access == WRITE) note_progress(*watch.worker);
    if (beside_device(address)) return outside(address, bytes, access, nearest_device(address), pc);
    uint64_t page = address / page_size(), &benign = watch.benign[page % BENIGN];
    if (page == benign || address - watch.packed < watch.packed_bytes) return;
    if (near_shared(address))
        return outside(address, bytes, access, nearest_shared(address), pc);
    if (in_kernel_file(reinterpret_cast<void*>(address))) benign = page;
    else outside(address, bytes, access, wrapped(address), pc);
}

template <Access access>
static inline void inside(Variable& variable, uint64_t address, unsigned bytes, uint32_t pc, Manner manner) {
    uint64_t offset = address - reinterpret_cast<uint64_t>(variable.start);
    if (__builtin_expect(offset >= variable.bytes || offset + bytes > variable.bytes, 0))
        return outside(offset < variable.bytes ? address + (variable.bytes - offset) : address, bytes, access,
                       &variable - watch.variable, pc);
    if (__builtin_expect((offset | bytes) & ((1u << variable.shift) - 1), 0))
        refine(variable, __builtin_ctzll(offset | bytes));
    if (access == WRITE) note_progress(*watch.worker);
    Stamp now = stamp_now(pc, manner);
    Cell *cell = variable.cells + (offset >> variable.shift), *missing = nullptr;
    const Cell* last = variable.cells + ((offset + bytes - 1) >> variable.shift);
    bool some = false;
    do {
        if (check<access>(variable, cell, now)) some = true;
        else if (!missing) missing = cell;
    } while (++cell <= last);
    if (access != WRITE && variable.shared && missing && !(some && manner == COPY))
        uninitialised(variable, missing, access, pc);
    if (!watch.recording) return;
    if (manner == COPY) record_struct(access, variable, offset, bytes, pc);
    else record(access, &variable - watch.variable, offset, bytes, pc);
}

template <Access access>
static inline void touch(const void* where, unsigned bytes, const void* from, Manner manner = PLAIN) {
    uint64_t address = reinterpret_cast<uint64_t>(where);
    uint32_t pc = watch.pc = reinterpret_cast<uint64_t>(from) - 1 - watch.base;  // within the call
    uint64_t window = (address - watch.arena) >> watch.window_bits;
    int number = in_shared(address) ? watch.slot[(address - watch.shared) / 16]
                 : window < watch.buffers ? int(window) : -1;
    if (__builtin_expect(number < 0 && watch.devices, 0)) number = device_at(address);
    if (number < 0) elsewhere(address, bytes, access, pc);
    else if (number == MAX_VARIABLES) outside(address, bytes, access, nearest_shared(address), pc);
    else inside<access>(watch.variable[number], address, bytes, pc, manner);
}

}  // namespace minigrad
