// The start and the end of a watched launch, and its happens-before by barriers and warps.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shadow_memory.h"

namespace minigrad {

Watch watch;

static uint64_t window_bytes() { return uint64_t(1) << watch.window_bits; }

// The address window of a buffer: reserved and inaccessible, except for the buffer's own pages.
static bool make_window(unsigned number, uint64_t bytes, unsigned element) {
    Variable& variable = watch.variable[number];
    memset(&variable, 0, sizeof variable);
    char* middle = reinterpret_cast<char*>(watch.arena + (uint64_t(2 * number + 1) << (watch.window_bits - 1)));
    variable.start = middle;
    variable.bytes = bytes;
    variable.shift = granule(element);
    variable.element = variable.align = element;
    size_t pages = (bytes + page_size() - 1) / page_size() * page_size();
    if (pages && mprotect(middle, pages, PROT_READ | PROT_WRITE)) return false;
    memset(middle + bytes, 0xff, pages - bytes);  // NaN for whoever reads there
    return make_cells(variable);
}

static void new_epoch() {
    ++watch.epoch;
    if (watch.dirty) {
        memset(watch.vector_clock, 0, MAX_THREADS * sizeof *watch.vector_clock);
        for (unsigned i = 0; i < MAX_THREADS; ++i) watch.clock[i] = 1;
        watch.dirty = false;
    }
    if (watch.recording) memset(watch.warp_ops, 0, MAX_THREADS * sizeof *watch.warp_ops);
}

// The arrays that a BlockWatch points to, in one piece of memory.
struct BlockArrays {
    uint32_t clock[MAX_THREADS], vector_clock[MAX_THREADS][WARP], warp_ops[MAX_THREADS];
    int calls[MAX_THREADS];
    Variable own[MAX_VARIABLES];
};

static void make_arrays() {
    BlockArrays* arrays = static_cast<BlockArrays*>(calloc(1, sizeof(BlockArrays)));
    if (!arrays) fail(SYSTEM, nullptr, 0, "the system has no memory to watch %d blocks at once", int(launch.blocks));
    watch.clock = arrays->clock, watch.vector_clock = arrays->vector_clock, watch.warp_ops = arrays->warp_ops;
    watch.own = arrays->own, watch.calls = arrays->calls;
    watch.dirty = true;
    watch.epoch = watch.block << EPOCH_BITS;
}

static unsigned first_shared() { return watch.buffers + watch.devices; }

static void set_aside() {
    for (unsigned i = first_shared(); i < watch.variables; ++i) watch.own[i] = watch.variable[i];
    watch.by_place[watch.turns > 1 ? watch.block : 0] = watch;
}

// Shared variables that another block, whose shared memory was at `before`, has declared: here they lie at the same
// offset, with cells of their own.
static void bring_variables(uint64_t before) {
    for (unsigned i = first_shared(); i < watch.variables; ++i) {
        Variable &variable = watch.variable[i], &own = watch.own[i];
        if (!own.cells) {
            own = variable;
            own.start += watch.shared - before;
            own.atomics = nullptr, own.shift = granule(own.element);
            if (!make_cells(own)) fail(SYSTEM, nullptr, 0, "the system has no memory to watch %s", own.name);
        }
        variable = own;
    }
}

// The block of this worker goes on, or begins.
void watch_turn(Worker& worker) {
    uint64_t place = watch.turns > 1 ? worker.place : 0, before = watch.shared;
    if (watch.worker) set_aside();
    static_cast<BlockWatch&>(watch) = watch.by_place[place];
    watch.worker = &worker;
    watch.block = worker.place;
    watch.shared = reinterpret_cast<uint64_t>(worker.shared);
    if (!watch.clock) make_arrays();
    bring_variables(before);
}

void watch_block(Worker& worker) {
    worker.critical = 1;
    if (watch.turns > 1 || !watch.worker) watch_turn(worker);
    leave_critical(worker);
    watch.block = worker.place;
    watch.recording = number_of(watch.block) < watch.blocks && !watch.full;
    new_epoch();
    memset(watch.calls, 0, MAX_THREADS * sizeof *watch.calls);
    watch.block_epochs[watch.block] = watch.first_epoch = watch.epoch;
    if (watch.release_state) reset_block_clocks();
    if (watch.copies) forget_copies();
}

void watch_barrier() {
    if (watch.release_state) {
        watch.worker->critical = 1;
        join_block_clocks();
        leave_critical(*watch.worker);
    }
    new_epoch();
}

// Blocks are numbered in the order in which they begin; this function is its own inverse.
uint32_t number_of(uint32_t block) { return watch.reversed ? launch.blocks - 1 - block : block; }

// __syncwarp orders the accesses of its lanes: their vector clocks are joined. Shuffles and votes exchange registers
// and order no memory.
void watch_warp(unsigned warp, unsigned lanes, const char* what) {
    unsigned first = warp * WARP;
    for (unsigned i = 0; i < WARP; ++i) watch.warp_ops[first + i] += lanes >> i & 1;
    if (strcmp(what, "__syncwarp")) return;
    uint32_t joint[WARP] = {};
    for (unsigned i = 0; i < WARP; ++i) {
        if (!(lanes >> i & 1)) continue;
        for (unsigned j = 0; j < WARP; ++j)
            if (joint[j] < watch.vector_clock[first + i][j]) joint[j] = watch.vector_clock[first + i][j];
        if (joint[i] < watch.clock[first + i]) joint[i] = watch.clock[first + i];
    }
    for (unsigned i = 0; i < WARP; ++i) {
        if (!(lanes >> i & 1)) continue;
        memcpy(watch.vector_clock[first + i], joint, sizeof joint);
        ++watch.clock[first + i];
    }
    watch.dirty = true;
    if (!watch.release_state) return;
    watch.worker->critical = 1;
    join_warp_clocks(first, lanes);
    leave_critical(*watch.worker);
}

static void free_cells(const Variable& variable) {
    if (variable.cells) munmap(variable.cells, variable.count * sizeof(Cell));
    if (variable.atomics) munmap(variable.atomics, variable.count * sizeof(AtomicCell));
}

static void free_block(const BlockWatch& block) {
    for (unsigned i = first_shared(); block.clock && i < watch.variables; ++i) free_cells(block.own[i]);
    free_copies(block.copies);
    free_block_clocks(block.releases_known);
    free(block.clock);  // and the other arrays with it
}

static void protect_pages() {
    for (char* page : watch.unprotected)
        if (page) mprotect(page, page_size(), PROT_NONE);
}

}  // namespace minigrad

using namespace minigrad;

// The request from Python; see native.py.
struct WatchRequest {
    uint64_t packed, packed_bytes, blocks, grid, limit;
    void* kernel;
    const uint8_t* foreign;
    uint64_t foreign_bits;
    uint32_t vectors, buffers, shared, reversed, keep_history, cooperative;  // shared: bytes of dynamic shared memory
    uint64_t* bytes;  // of each buffer
    uint32_t* elements;  // the size of its elements
    char** starts;  // filled in: the address of each during the launch
};

MINIGRAD_EXPORT void minigrad_watch_end() {
    protect_pages();
    if (watch.worker) set_aside();
    for (uint64_t place = 0; watch.by_place && place < watch.turns; ++place) free_block(watch.by_place[place]);
    free(watch.by_place);
    free_release_state();
    free_history();
    for (unsigned i = 0; i < first_shared(); ++i) free_cells(watch.variable[i]);
    if (watch.arena) munmap(reinterpret_cast<void*>(watch.arena - window_bytes()), watch.arena_bytes);
    free(watch.records);
    free(watch.block_epochs);
    memset(&watch, 0, sizeof watch);
}

// One more window lies ahead and stays free: the address 2^32 elements after shared memory, which may lie right below,
// must be in no buffer's window.
static bool reserve(uint64_t windows, unsigned bits) {
    uint64_t bytes = (windows + 1) << bits;
    void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    watch.window_bits = bits, watch.arena_bytes = bytes;
    watch.arena = reinterpret_cast<uint64_t>(at) + window_bytes();
    return true;
}

static bool reserve_windows(const WatchRequest& request) {
    if (!request.buffers) return true;
    if (!reserve(request.buffers, WIDE) && !reserve(request.buffers, NARROW)) return false;
    for (; watch.buffers < request.buffers; watch.variables = ++watch.buffers) {
        unsigned i = watch.buffers;
        if (!make_window(i, request.bytes[i], request.elements[i])) return false;
        request.starts[i] = watch.variable[i].start;
    }
    return true;
}

// Returns 0 where the system has no memory. Each begin needs its end.
MINIGRAD_EXPORT int minigrad_watch_begin(const WatchRequest* request) {
    Dl_info home;
    memset(&watch, 0, sizeof watch);
    if (!dladdr(request->kernel, &home)) return 0;
    watch.base = reinterpret_cast<uint64_t>(home.dli_fbase);
    watch.packed = request->packed;
    watch.packed_bytes = request->packed_bytes;
    watch.blocks = request->blocks;
    watch.limit = request->limit;
    watch.foreign = request->foreign;
    watch.foreign_bits = request->foreign_bits;
    watch.vectors = request->vectors;
    watch.dynamic = request->shared;
    watch.reversed = request->reversed;
    watch.keep_history = request->keep_history;
    watch.block_epochs = static_cast<uint32_t*>(calloc(request->grid + 1, sizeof(uint32_t)));
    watch.turns = request->cooperative ? request->grid : 1;
    watch.by_place = static_cast<BlockWatch*>(calloc(watch.turns, sizeof(BlockWatch)));
    memset(watch.slot, MAX_VARIABLES, sizeof watch.slot);
    watch.on = watch.block_epochs && watch.by_place && reserve_windows(*request) && add_devices();
    return watch.on;
}

// The findings so far, valid until the end; see native.py.
struct WatchResult {
    const Variable* variable;
    const Finding* findings;
    const Record* records;
    const uint32_t* block_epochs;
    uint64_t variables, found, count, full;
    uint32_t fenced, order_dependent, lost, cooperative;
};

MINIGRAD_EXPORT void minigrad_watch_result(WatchResult* result) {
    if (watch.doubts) end_doubts();
    if (!watch.full) number_iterations();
    *result = {watch.variable, watch.findings, watch.records, watch.block_epochs, watch.variables, watch.found,
               watch.full ? 0 : watch.count, watch.full ? watch.count : 0, watch.release_state != nullptr,
               watch.order_dependent, watch.lost, launch.cooperative};
}

// The records are the caller's from now on, until it gives them back: there may be hundreds of megabytes.
MINIGRAD_EXPORT void minigrad_keep_records() { watch.records = nullptr, watch.count = watch.room = 0; }
MINIGRAD_EXPORT void minigrad_free_records(void* records) { free(records); }
