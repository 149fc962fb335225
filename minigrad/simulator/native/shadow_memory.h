// Shadow memory of a watched launch: for each element the last accesses, by thread and vector clock. Kernels compiled
// with the instrumentation of the compiler's sanitizers call hooks.cpp at each access. One OS thread runs the blocks one
// after the other; those of a cooperative launch take turns.
#pragma once

#include "runtime.h"

// Keeps a function, and the branches that lead to it, out of the hot path of an access.
#define RARE __attribute__((cold))

namespace minigrad {

enum Access { READ, WRITE, ATOMIC, ENTER };  // ENTER: a basic block begins

// As in native.py. INDEX: outside an extent; EARLY: of what an asynchronous copy has not brought yet; MISSED: a barrier
// that threads did not reach before they returned; SKIPPED: one that threads went around, up to the kernel's end;
// RETURNED: a shuffle from a lane that has returned; UNNAMED: from one that is not in the mask; UNSET: an update of a
// thread's own variable that nobody has set; ELEMENT: a read of such an array's element; UNLIKE: a result that C++ leaves
// open, and a GPU's is another.
enum ProblemKind {
    RACE, OUTSIDE, UNINITIALISED, INDEX, EARLY, ELEMENT, MISSED, SKIPPED, RETURNED, UNNAMED, UNSET, UNLIKE
};

// Each buffer lies in the middle of an address window of its own, so that an index out of bounds still belongs to its
// array: up to 2^32 float4s, where x[threadIdx.x - 1] goes as unsigned, or 2^30 floats where the system has fewer
// addresses. The windows are adjacent; the address bits above these are the window's number.
constexpr unsigned WIDE = 37, NARROW = 33;
constexpr unsigned MAX_VARIABLES = 255, MAX_FINDINGS = 512, MAX_DOUBTS = 4, BENIGN = 16, FRESH_READS = 8;
constexpr unsigned MAX_UNPROTECTED = 1024, UNPROTECTED_SLOTS = 4 * MAX_UNPROTECTED;
constexpr unsigned THREAD_BITS = 10;
constexpr unsigned EPOCH_BITS = 24;  // of a block of a cooperative launch; the bits above are its place

// One remembered access. Epochs count the starts of blocks and the barriers of the whole launch, or, where blocks take
// turns, of the block. Within one epoch only a __syncwarp orders the accesses of different threads, so each thread has a
// clock.
struct Stamp {
    uint32_t epoch;                             // 0: never
    uint32_t thread_clock;                      // thread in the block, and its clock in the bits above
    uint32_t pc : 30, relaxed : 1, narrow : 1;  // within the kernel's file; volatile or atomic; atomic with block scope
    unsigned thread() const { return thread_clock % (1u << THREAD_BITS); }
    uint32_t clock() const { return thread_clock >> THREAD_BITS; }
    bool under_way() const { return narrow && !relaxed; }  // of an asynchronous copy that has not arrived
};

// The shadow of one element: two accesses of a kind, from different warps if possible. Where two are not enough, see
// access_history.cpp.
struct Cell {
    Stamp write, reads[2];
};
struct AtomicCell {
    Stamp at[2];
    uint64_t serial[2];  // atomics and releases of the launch before it
};

// A buffer or a __shared__ array. ctypes reads this struct: see native.py.
struct Variable {
    char* start;
    uint64_t bytes;
    Cell* cells;
    AtomicCell* atomics;  // nullptr until the first atomic
    uint64_t count;       // of cells
    uint32_t shift;       // a cell covers 2^shift bytes, the smallest access so far
    uint32_t shared;
    uint32_t element, align, partial, dims, extent[8];  // of an element: size, alignment, may have parts that are unset
    char name[64];
};

// Red zones next to a __device__ variable, each as large as the variable.
struct Zones {
    char* start[2];
};

struct Finding {
    int32_t kind, access, variable;  // variable: -1 unknown
    uint32_t count, pc, block, thread;
    uint32_t other_access, other_pc, other_block, other_thread;
    int32_t line, column;
    int64_t offset;    // in bytes from the variable's start, or the address; of INDEX the index; of MISSED, SKIPPED the
                       // threads; of UNLIKE a GPU's result; of UNNAMED the value
    const char* file;  // of INDEX and of all from MISSED on, with line and column; the other kinds have a pc
    const char* type;  // of INDEX: of the array, as 'float [8]'; of UNSET the name; of UNLIKE the type; else the call
    uint32_t differs;  // of a RACE of two writes: some wrote another value; of UNLIKE: it is a shift
    uint32_t extent;   // of INDEX of an array of structs, which `type` names
    double value;      // of UNLIKE: that is converted, or the bits of a shift
};

// One access of one thread in a block that is recorded.
struct Record {
    uint32_t pc, block, phase, warp_ops;  // barriers before it in the block; warp operations since the last barrier
    uint16_t thread;
    uint8_t access, variable;
    uint32_t bytes;
    int64_t offset;      // of ENTER, the function's stack frame
    uint64_t iteration;  // hash of the loop iterations around it; see loop_iterations.cpp
};

// A read of memory that nobody has written.
struct FreshRead {
    uint64_t address;
    uint32_t pc, thread;
};

struct Copies;  // of a thread, under way; see copies.cpp

struct BlockClocks;  // see release_acquire.cpp

// The watch of one block. Where blocks take turns, that of the running one is in `watch`.
struct BlockWatch {
    Worker* worker;
    uint64_t shared;              // the start of its shared memory
    uint32_t block;               // blocks that began before it
    uint32_t epoch, first_epoch;  // now, and at the block's start
    bool recording;
    uint64_t last_volatile_read;  // address
    unsigned volatile_reads;      // not counting repeats of one address
    bool dirty;                   // some clock has left its start value
    uint32_t* clock;
    uint32_t (*vector_clock)[WARP];  // the clocks of its warp that a thread knows
    uint32_t* warp_ops;
    int* calls;                   // of each thread: functions with a barrier that have begun and not ended; -1: at the
                                  // kernel's end
    Copies* copies;               // by thread; nullptr until the first asynchronous copy
    BlockClocks* releases_known;  // nullptr until the first fence or acquire
    Variable* own;                // its shared variables, with cells of their own, while it waits for its turn
};

struct Watch : BlockWatch {
    bool on;
    bool full;         // the limit of records was reached
    uint32_t vectors;  // vector types in the text of the file: 16 float4 and the like, 8 float2; 64, 32: alignas
    uint32_t pc;       // of the last hook
    bool replaces;     // the atomic under way is an exchange
    FreshRead fresh[FRESH_READS];  // the last ones
    unsigned fresh_reads;
    unsigned window_bits;
    uint64_t arena, base;  // start of the windows, of the kernel's file
    uint64_t arena_bytes;
    const uint8_t* foreign;  // a bit for each address of the file: 1 in functions whose accesses have a caller's line
    uint64_t foreign_bits;
    uint64_t packed, packed_bytes, benign[BENIGN];  // harmless memory: the arguments, pages found harmless
    unsigned buffers, devices, variables;  // in this order: buffers, then __device__ variables, then shared ones
    uint32_t dynamic;  // bytes of dynamic shared memory
    Zones zones[MAX_VARIABLES];  // of the __device__ variables
    // happens-before
    BlockWatch* by_place;    // in the order in which the blocks began; of blocks that do not take turns there is one
    uint64_t turns;          // the number of these
    uint32_t* block_epochs;  // first_epoch of each block, in the same order
    bool reversed;           // the last block and the last thread begin first
    bool order_dependent;    // some order depends on a release, or on which block came first to a word
    uint64_t serial;         // of the last atomic or release
    bool keep_history;       // the file has fences, a __syncwarp of some lanes, or cooperative groups
    void* history;           // if so, accesses beyond two; see access_history.cpp
    void* release_state;     // from the first fence on; see release_acquire.cpp
    // records
    uint64_t blocks;  // number of blocks that are recorded
    Record* records;
    uint64_t count, room, limit;
    Variable variable[MAX_VARIABLES + 1];
    uint8_t slot[SHARED_ROOM / 16];  // the variable at each 16 bytes of shared memory; MAX_VARIABLES: none
    Finding findings[MAX_FINDINGS];
    unsigned found, lost;                  // lost: past MAX_FINDINGS
    // the races of the write that comes next: it has yet to show its value
    Finding* doubt[MAX_DOUBTS];
    unsigned doubts, doubted_bytes;
    uint64_t doubted;  // its address
    char before[16];   // the value there
    uint64_t small_variable[1024];  // by a hash of its address: one that nobody has set; see unset.cpp
    bool small_variables;           // there has been one
    char* unprotected[UNPROTECTED_SLOTS];  // pages outside the buffers that were made accessible; see access.cpp
    unsigned unprotected_count;
};

extern Watch watch;

inline bool in_shared(uint64_t address) { return address - watch.shared < SHARED_ROOM; }
// True for an epoch of the running block: those of other blocks are earlier or far away.
inline bool of_this_block(uint32_t epoch) {
    return epoch - watch.first_epoch < (watch.turns > 1 ? 1u << EPOCH_BITS : 1u << 31);
}
inline bool near_shared(uint64_t address) { return address - watch.shared + GUARD < SHARED_ROOM + 2 * GUARD; }

// The address of an instruction in the kernel's file, from the return address behind it.
inline uint64_t pc_of(const void* after) { return reinterpret_cast<uint64_t>(after) - 1 - watch.base; }
inline bool is_foreign(uint64_t pc) { return pc < watch.foreign_bits && watch.foreign[pc / 8] >> pc % 8 & 1; }

// The return address in the reader's code: `from`, or, where that lies in a function of a header or one that copies a
// struct, that of its caller. frame: of the function that is called there. Unoptimised functions keep at the start of
// their frame the frame of their caller, and then their return address.
inline const void* readers_code(const void* from, const void* frame) {
    const void* at = from;
    while (is_foreign(pc_of(at))) {
        frame = *static_cast<const void* const*>(frame);
        at = static_cast<const void* const*>(frame)[1];
    }
    return pc_of(at) < watch.foreign_bits ? at : from;
}

// Called by the runtime. A launch without a watch tests one flag at each.
void watch_block(Worker& worker);
void watch_turn(Worker& worker);
void watch_barrier();
void watch_missed_barrier(Worker& worker);
void watch_shuffle(Worker& worker, Warp& warp, unsigned lanes);
void watch_skipped_lanes(Worker& worker, Warp& warp, unsigned lanes);
void end_doubts();
void watch_warp(unsigned warp, unsigned lanes, const char* what);
AtomicCell* make_atomics(Variable& variable);
void refine(Variable& variable, unsigned shift);
uint32_t block_of(uint32_t epoch);
uint32_t number_of(uint32_t block);
// release_acquire.cpp; all but the first only where watch.release_state is set
void on_fence(bool device);
void acquire_at(uint64_t address, bool device);
void release_at(uint64_t address, bool device);
void begin_volatile_write();
void end_volatile_write(uint64_t address);
void join_warp_clocks(unsigned first, unsigned lanes);
void join_block_clocks();
void reset_block_clocks();
void free_block_clocks(BlockClocks* clocks);
RARE bool ordered_by_release(const Stamp& before, unsigned self);
RARE bool ordered_by_atomics(const char* cell, uint64_t serial, unsigned self);
void free_release_state();
void number_iterations();
void forget_copies();  // of the block before
void free_copies(Copies* copies);
void free_history();

}  // namespace minigrad
