// The beginning and the end of a watched launch, and what puts its accesses in order.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "watch.h"

namespace minigrad {

Watch watch;

static uint64_t window_bytes() { return uint64_t(1) << watch.window_bits; }

// A window lies in address space that is reserved and not accessible, but for the buffer's own pages.
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
    memset(middle + bytes, 0xff, pages - bytes);  // what is read there is NaN
    return make_cells(variable);
}

static void new_epoch() {
    ++watch.epoch;
    if (watch.dirty) {
        memset(watch.seen, 0, sizeof watch.seen);
        for (uint32_t& clock : watch.clock) clock = 1;
        watch.dirty = false;
    }
    if (watch.recording) memset(watch.sync, 0, sizeof watch.sync);
}

void watch_block(Worker& worker, uint64_t number) {
    watch.worker = &worker;
    watch.shared = reinterpret_cast<uint64_t>(worker.shared);
    watch.block = number_of(number);
    watch.recording = number < watch.blocks && !watch.full;
    new_epoch();
    watch.block_epochs[watch.block] = watch.first_epoch = watch.epoch;
    if (watch.fences) begin_known();
}

void watch_barrier() {
    if (watch.fences) {
        watch.worker->critical = 1;
        meet_known();
        leave_critical(*watch.worker);
    }
    new_epoch();
}

// Blocks are numbered as they begin; this is its own inverse.
uint32_t number_of(uint32_t block) { return watch.reversed ? launch.blocks - 1 - block : block; }

// __syncwarp orders the accesses of its lanes: each comes to know what the others knew. Shuffles and votes exchange
// registers, and promise nothing of memory.
void watch_warp(unsigned warp, unsigned lanes, const char* what) {
    unsigned first = warp * WARP;
    for (unsigned i = 0; i < WARP; ++i) watch.sync[first + i] += lanes >> i & 1;
    if (strcmp(what, "__syncwarp")) return;
    uint32_t joint[WARP] = {};
    for (unsigned i = 0; i < WARP; ++i) {
        if (!(lanes >> i & 1)) continue;
        for (unsigned j = 0; j < WARP; ++j)
            if (joint[j] < watch.seen[first + i][j]) joint[j] = watch.seen[first + i][j];
        if (joint[i] < watch.clock[first + i]) joint[i] = watch.clock[first + i];
    }
    for (unsigned i = 0; i < WARP; ++i) {
        if (!(lanes >> i & 1)) continue;
        memcpy(watch.seen[first + i], joint, sizeof joint);
        ++watch.clock[first + i];
    }
    watch.dirty = true;
    if (!watch.fences) return;
    watch.worker->critical = 1;
    share_known(first, lanes);
    leave_critical(*watch.worker);
}

static void forget_pages() {
    for (char* page : watch.opened)
        if (page) mprotect(page, page_size(), PROT_NONE);
}

}  // namespace minigrad

using namespace minigrad;

// What Python asks for; see native.py.
struct WatchOrder {
    uint64_t packed, packed_bytes, blocks, grid, limit;
    void* kernel;
    uint32_t vectors, buffers, shared, reversed, careful, unused;  // shared: bytes of dynamic shared memory
    uint64_t* bytes;     // of each buffer
    uint32_t* elements;  // the size of its elements
    char** starts;       // the answer: where each lies during the launch
};

MINIGRAD_EXPORT void minigrad_watch_end() {
    forget_pages();
    forget_fences();
    forget_kept();
    for (unsigned i = 0; i < watch.variables; ++i) {
        Variable& variable = watch.variable[i];
        if (variable.cells) munmap(variable.cells, variable.count * sizeof(Cell));
        if (variable.atomics) munmap(variable.atomics, variable.count * sizeof(Pair));
    }
    if (watch.arena) munmap(reinterpret_cast<void*>(watch.arena - window_bytes()), watch.arena_bytes);
    free(watch.records);
    free(watch.block_epochs);
    memset(&watch, 0, sizeof watch);
}

// A window more lies ahead, and is free: what is 2^32 elements behind shared memory, which may lie right below, is in no
// buffer's.
static bool reserve(uint64_t windows, unsigned bits) {
    uint64_t bytes = (windows + 1) << bits;
    void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    watch.window_bits = bits, watch.arena_bytes = bytes;
    watch.arena = reinterpret_cast<uint64_t>(at) + window_bytes();
    return true;
}

static bool reserve_windows(const WatchOrder& order) {
    if (!order.buffers) return true;
    if (!reserve(order.buffers, WIDE) && !reserve(order.buffers, NARROW)) return false;
    for (; watch.buffers < order.buffers; watch.variables = ++watch.buffers) {
        unsigned i = watch.buffers;
        if (!make_window(i, order.bytes[i], order.elements[i])) return false;
        order.starts[i] = watch.variable[i].start;
    }
    return true;
}

// 0 where the system has no memory for it. Every beginning needs its end.
MINIGRAD_EXPORT int minigrad_watch_begin(const WatchOrder* order) {
    Dl_info home;
    memset(&watch, 0, sizeof watch);
    if (!dladdr(order->kernel, &home)) return 0;
    watch.base = reinterpret_cast<uint64_t>(home.dli_fbase);
    watch.packed = order->packed;
    watch.packed_bytes = order->packed_bytes;
    watch.blocks = order->blocks;
    watch.limit = order->limit;
    watch.vectors = order->vectors;
    watch.dynamic = order->shared;
    watch.reversed = order->reversed;
    watch.careful = order->careful;
    watch.block_epochs = static_cast<uint32_t*>(calloc(order->grid + 1, sizeof(uint32_t)));
    memset(watch.slot, MAX_VARIABLES, sizeof watch.slot);
    watch.dirty = true;
    watch.on = watch.block_epochs && reserve_windows(*order) && add_devices();
    return watch.on;
}

// What was seen, up to its end; see native.py.
struct WatchAnswer {
    const Variable* variable;
    const Finding* findings;
    const Record* records;
    const uint32_t* block_epochs;
    uint64_t variables, found, count, full;
    uint32_t fenced, turnable, lost;
};

MINIGRAD_EXPORT void minigrad_watch_answer(WatchAnswer* answer) {
    if (!watch.full) number_turns();
    *answer = {watch.variable, watch.findings, watch.records, watch.block_epochs, watch.variables, watch.found,
               watch.full ? 0 : watch.count, watch.full ? watch.count : 0, watch.fences != nullptr, watch.turnable,
               watch.lost};
}
