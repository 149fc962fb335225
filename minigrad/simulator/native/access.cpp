// The check of one access by one thread: bounds, order with the accesses of other threads, and initialisation.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shadow_memory.h"

namespace minigrad {

// RELAXED: volatile or atomic; IN_BLOCK: atomic with block scope; COPY: of a whole struct, whose padding nobody writes.
enum AccessMode { PLAIN, RELAXED, IN_BLOCK, COPY };

static inline Stamp stamp_now(uint32_t pc, AccessMode mode) {
    unsigned thread = watch.worker->current->thread.index;
    return {watch.epoch, thread | watch.clock[thread] << THREAD_BITS, pc, mode == RELAXED || mode == IN_BLOCK,
            mode == IN_BLOCK};
}

static inline bool same_thread(const Stamp& a, const Stamp& b) { return a.thread() == b.thread(); }

static inline bool same_warp(const Stamp& a, const Stamp& b) {
    return a.epoch == b.epoch && a.thread() / WARP == b.thread() / WARP;
}

// True if barriers put the earlier access before the present one.
static inline bool ordered_by_barriers(const Stamp& before, const Stamp& now, const Variable& variable) {
    if (before.epoch != now.epoch) return of_this_block(before.epoch) || !before.epoch || variable.shared;
    if (same_thread(before, now)) return true;
    return same_warp(before, now) && before.clock() <= watch.vector_clock[now.thread()][before.thread() % WARP];
}

// Happens-before: the earlier access is over by now under every schedule of the threads.
static inline bool ordered(const Stamp& before, const Stamp& now, const Variable& variable) {
    return ordered_by_barriers(before, now, variable) ||
           (watch.release_state && ordered_by_release(before, now.thread()));
}

uint32_t block_of(uint32_t epoch) {
    uint32_t low = 0, high = launch.next - 1;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (watch.block_epochs[middle] <= epoch) low = middle;
        else high = middle - 1;
    }
    return low;
}

RARE static void race(const Stamp& before, Access kind, const Stamp& now, Access access, Variable& variable,
                      Cell* cell) {
    int number = &variable - watch.variable;
    Finding* either = nullptr;
    Finding* finding = find(before.under_way() ? EARLY : RACE, access, number, now.pc, before.pc, &either);
    if (either && !either->differs) {
        if (kind == WRITE && access == WRITE) doubt(either);
        else either->differs = true;
    }
    // Of the occurrences at one place that between two blocks is told, as its cure is one for all.
    if (!finding && (!either || either->block != either->other_block || of_this_block(before.epoch))) return;
    if (!finding) finding = either, finding->block = number_of(watch.block), finding->thread = now.thread();
    finding->offset = int64_t(cell - variable.cells) << variable.shift;
    finding->other_access = kind;
    finding->other_thread = before.thread();
    finding->other_block = number_of(block_of(before.epoch));
}

// Accesses of different blocks, at least one of them atomic for its own block only.
static inline bool in_other_scope(const Stamp& before, const Stamp& now) {
    return (before.narrow || now.narrow) && !of_this_block(before.epoch);
}

// Relaxed accesses by which a flag or a counter works do not race: atomics with atomics, and one thread's atomic or
// volatile write with relaxed reads. In shared memory volatile reads do race with a volatile write: there it is the
// mistake of pre-Volta code, which took volatile for an order.
RARE static bool is_flag(const Stamp& before, Access kind, const Stamp& now, Access access, const Variable& variable) {
    if (in_other_scope(before, now)) return false;
    // A block finds there what the order of the blocks leaves it.
    watch.order_dependent |= !variable.shared && !of_this_block(before.epoch);
    return kind == access ? kind == ATOMIC : !variable.shared || kind == ATOMIC || access == ATOMIC;
}

// True if the write is that of a copy which may still be under way, in this block.
static inline bool is_early(const Stamp& before) { return before.under_way() && of_this_block(before.epoch); }

static inline bool no_race(const Stamp& before, Access kind, const Stamp& now, Access access,
                           const Variable& variable) {
    bool relaxed = before.relaxed && now.relaxed;
    return (relaxed && is_flag(before, kind, now, access, variable)) ||
           (ordered(before, now, variable) && !is_early(before));
}

static inline void compare(const Stamp& before, Access kind, const Stamp& now, Access access, Variable& variable,
                           Cell* cell) {
    if (!no_race(before, kind, now, access, variable)) race(before, kind, now, access, variable, cell);
}

// Atomics on one word are totally ordered: whoever has acquired a later one comes after all before it.
static void compare(const Stamp& before, uint64_t serial, const Stamp& now, Access access, Variable& variable,
                    Cell* cell) {
    if (no_race(before, ATOMIC, now, access, variable)) return;
    const char* at = variable.start + ((cell - variable.cells) << variable.shift);
    bool over = watch.release_state && ordered_by_atomics(at, serial, now.thread());
    if (!over) race(before, ATOMIC, now, access, variable, cell);
}

RARE static void compare_history(const Stamp& now, Access access, Variable& variable, Cell* cell) {
    if (access != READ)
        each_past(variable, cell, READ, [&](const Stamp& read, uint64_t) {
            compare(read, READ, now, access, variable, cell);
        });
    each_past(variable, cell, ATOMIC, [&](const Stamp& atomic, uint64_t serial) {
        compare(atomic, serial, now, access, variable, cell);
    });
}

// The new read replaces a read that is ordered before it: whatever comes after the new one comes after both.
static inline void remember(Cell* cell, const Stamp& now, const Variable& variable) {
    Stamp* two = cell->reads;
    bool first = ordered(two[0], now, variable);
    if (first || ordered(two[1], now, variable)) {
        two[!first] = now;
    } else if (same_warp(two[0], two[1])) {
        if (watch.keep_history) add_to_history(variable, cell, READ, two[1], 0);
        two[1] = now;
    } else if (watch.keep_history) {
        add_to_history(variable, cell, READ, now, 0);
    }
}

// The same for atomics. The latest counts: the earlier ones are over for whoever makes one after them.
static void remember(AtomicCell& atomics, const Stamp& now, const Variable& variable, const Cell* cell) {
    bool first = ordered_by_barriers(atomics.at[0], now, variable) || same_warp(atomics.at[0], now);
    if (watch.keep_history && !ordered_by_barriers(atomics.at[!first], now, variable))
        add_to_history(variable, cell, ATOMIC, atomics.at[!first], atomics.serial[!first]);
    atomics.at[!first] = now;
    atomics.serial[!first] = ++watch.serial;
}

// Returns true if the element has been written.
template <Access access>
static inline bool check(Variable& variable, Cell* cell, const Stamp& now) {
    const Stamp& last = cell->reads[0];
    if (access == READ && last.epoch == now.epoch && last.thread_clock == now.thread_clock) return true;
    AtomicCell* atomics = variable.atomics ? variable.atomics + (cell - variable.cells) : nullptr;
    compare(cell->write, WRITE, now, access, variable, cell);
    if (access != READ)
        for (const Stamp& read : cell->reads) compare(read, READ, now, access, variable, cell);
    for (unsigned i = 0; atomics && i < 2; ++i)
        compare(atomics->at[i], atomics->serial[i], now, access, variable, cell);
    if (watch.history) compare_history(now, access, variable, cell);
    bool written = of_this_block(cell->write.epoch) || (atomics && of_this_block(atomics->at[0].epoch));
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

// True for memory as `sim` allocates it. A type of fewer than four bytes may hold that by chance.
static inline bool is_fresh(uint64_t address, unsigned bytes) {
    uint32_t word;
    for (unsigned at = 0; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, reinterpret_cast<const void*>(address + at), sizeof word);
        if (word != CANARY) return false;
    }
    return bytes >= sizeof word;
}

// An access to global memory; fresh: nobody has written there. To read such memory alone is no fault, as a copy of
// padding does: to change it by what was read is one.
template <Access access>
static inline void update(Variable& variable, uint64_t address, unsigned bytes, const Stamp& now, bool fresh) {
    Cell* cell = variable.cells + ((address - reinterpret_cast<uint64_t>(variable.start)) >> variable.shift);
    if (access == ATOMIC && fresh && !watch.replaces) uninitialised(variable, cell, access, now.pc);
    if (access == READ && fresh) watch.fresh[watch.fresh_reads++ % FRESH_READS] = {address, now.pc, now.thread()};
    if (access != WRITE || !watch.fresh_reads) return;
    for (FreshRead& read : watch.fresh)
        if (read.address - address < bytes && read.thread == now.thread()) {
            uninitialised(variable, cell, READ, read.pc);
            read.address = 0;
        }
}

// Past the limit the checks go on without a record.
static bool grow_records(Worker& worker) {
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
    if (watch.count == watch.room && !grow_records(worker)) return;
    unsigned thread = worker.current->thread.index;
    watch.records[watch.count++] = {
        pc, number_of(watch.block), watch.epoch - watch.first_epoch, watch.warp_ops[thread],
        uint16_t(thread), uint8_t(access), uint8_t(variable), bytes, offset, 0};
}

// The bytes that one instruction moves of a struct: at most its alignment. That is unknown here, but the array has one,
// of at least a word, and vectors and structs with a larger one are named in the text of the file.
static unsigned transfer_size(const Variable& variable, uint64_t offset, unsigned bytes) {
    unsigned most = 1u << __builtin_ctzll(offset | bytes | 16);
    while (most > 4 && most > variable.align && !(most & (watch.vectors | watch.vectors / 4))) most /= 2;
    return most;
}

static void record_struct(Access access, Variable& variable, int64_t offset, uint32_t bytes, uint32_t pc) {
    unsigned step = transfer_size(variable, offset, bytes);
    for (uint32_t at = 0; at < bytes; at += step)
        if (watch.recording) record(access, &variable - watch.variable, offset + at, step, pc);
}

// The hash slot of an unprotected page, or the free slot for it. The table is never full.
static char*& unprotected_slot(uint64_t page) {
    uint64_t at = page / page_size();
    for (;; ++at) {
        char*& slot = watch.unprotected[at % UNPROTECTED_SLOTS];
        if (!slot || slot == reinterpret_cast<char*>(page)) return slot;
    }
}

// Make pages next to an array accessible, so that the kernel can go on; they read as NaN.
static void unprotect_pages(uint64_t address, unsigned bytes) {
    uint64_t size = page_size();
    for (uint64_t page = address / size * size; page < address + bytes; page += size) {
        char*& place = unprotected_slot(page);
        if (place) continue;
        char* memory = reinterpret_cast<char*>(page);
        if (watch.unprotected_count == MAX_UNPROTECTED || mprotect(memory, size, PROT_READ | PROT_WRITE)) return;
        memset(memory, 0xff, size);
        place = memory, ++watch.unprotected_count;
    }
}

// The variable among [first, last) that is nearest to an address outside of all.
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

// The __shared__ or __device__ variable for which the address is an index that wrapped to 2^32 too large; -1: none.
static int wrapped(uint64_t address) {
    for (unsigned i = watch.buffers; i < watch.variables; ++i) {
        const Variable& variable = watch.variable[i];
        uint64_t start = reinterpret_cast<uint64_t>(variable.start) + (uint64_t(variable.element) << 32);
        if (start - address < GUARD) return i;
    }
    return -1;
}

// The __device__ variable that contains the address; -1: none.
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

// True if pages at the address belong to the variable's own surroundings: a buffer's window, or the pages on either
// side of shared memory. Other addresses may hold anything.
static bool can_unprotect(uint64_t address, int number) {
    if (number < 0) return false;
    const Variable& variable = watch.variable[number];
    if (variable.shared) return near_shared(address) && !in_shared(address);
    uint64_t pages = (variable.bytes + page_size() - 1) / page_size();
    uint64_t start = reinterpret_cast<uint64_t>(variable.start);
    return unsigned(number) < watch.buffers && address - start >= pages * page_size();
}

RARE static void outside(uint64_t address, unsigned bytes, Access access, int number, uint32_t pc) {
    Finding* finding = find(OUTSIDE, access, number, pc, 0);
    int64_t start = number < 0 ? 0 : reinterpret_cast<int64_t>(watch.variable[number].start);
    if (finding) finding->offset = int64_t(address) - start;
    if (access == WRITE) note_progress(*watch.worker);
    if (can_unprotect(address, number)) unprotect_pages(address, bytes);
}

// From the first to the last byte that kernels have taken by malloc or new. They may keep it for later launches.
static uint64_t heap_start = ~uint64_t(0), heap_stop;

// An address in no variable: a local array, a constant, the kernel's arguments; or an error.
static void outside_variables(uint64_t address, unsigned bytes, Access access, uint32_t pc) {
    if (!watch.worker) return;  // a file is being loaded, and the host's variables are set
    if (on_stack(address)) {
        if (access == READ) on_local_read(address, bytes, pc);
        else if (__builtin_expect(watch.small_variables, 0)) set_small(address, bytes);
        return;
    }
    if (address - reinterpret_cast<uint64_t>(watch.worker) < sizeof(Worker)) return;  // the operands of a shuffle
    if (access == WRITE) note_progress(*watch.worker);
    if (beside_device(address)) return outside(address, bytes, access, nearest_device(address), pc);
    uint64_t page = address / page_size(), &benign = watch.benign[page % BENIGN];
    if (page == benign || address - watch.packed < watch.packed_bytes) return;
    if (address >= heap_start && address < heap_stop) return;
    if (near_shared(address))
        return outside(address, bytes, access, nearest_shared(address), pc);
    if (in_kernel_file(reinterpret_cast<void*>(address))) benign = page;
    else outside(address, bytes, access, wrapped(address), pc);
}

template <Access access>
static inline void inside(Variable& variable, uint64_t address, unsigned bytes, uint32_t pc, AccessMode mode) {
    uint64_t offset = address - reinterpret_cast<uint64_t>(variable.start);
    if (__builtin_expect(offset >= variable.bytes || offset + bytes > variable.bytes, 0))
        return outside(offset < variable.bytes ? address + (variable.bytes - offset) : address, bytes, access,
                       &variable - watch.variable, pc);
    if (__builtin_expect((offset | bytes) & ((1u << variable.shift) - 1), 0))
        refine(variable, __builtin_ctzll(offset | bytes));
    if (access == WRITE) note_progress(*watch.worker);
    Stamp now = stamp_now(pc, mode);
    Cell *cell = variable.cells + (offset >> variable.shift), *missing = nullptr;
    const Cell* last = variable.cells + ((offset + bytes - 1) >> variable.shift);
    bool some = false, fresh = !cell->write.epoch && access != WRITE && is_fresh(address, bytes);
    do {
        if (check<access>(variable, cell, now)) some = true;
        else if (!missing) missing = cell;
    } while (++cell <= last);
    if (access != WRITE && variable.shared && missing && !(some && (mode == COPY || variable.partial)))
        uninitialised(variable, missing, access, pc);
    if (!variable.shared) update<access>(variable, address, bytes, now, fresh);
    if (access != READ && __builtin_expect(watch.doubts, 0)) begin_doubts(address, bytes);
    if (!watch.recording) return;
    if (mode == COPY) record_struct(access, variable, offset, bytes, pc);
    else record(access, &variable - watch.variable, offset, bytes, pc);
}

template <Access access>
static inline void on_access(const void* where, unsigned bytes, const void* from, AccessMode mode = PLAIN) {
    uint64_t address = reinterpret_cast<uint64_t>(where);
    // Of `a[0] = b` with structs the compiler notes the write, then the read, and then does both.
    if (access != READ && __builtin_expect(watch.doubts, 0)) end_doubts();
    // an address within the call instruction
    uint32_t pc = watch.pc = pc_of(from);
    uint64_t window = (address - watch.arena) >> watch.window_bits;
    int number = in_shared(address) ? watch.slot[(address - watch.shared) / 16]
                 : window < watch.buffers ? int(window) : -1;
    if (__builtin_expect(number < 0 && watch.devices, 0)) number = device_at(address);
    if (number < 0) outside_variables(address, bytes, access, pc);
    else if (number == MAX_VARIABLES) outside(address, bytes, access, nearest_shared(address), pc);
    else inside<access>(watch.variable[number], address, bytes, pc, mode);
}

}  // namespace minigrad
