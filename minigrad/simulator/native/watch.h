// The microscope's picture of a launch: who touched which element when. A kernel compiled with the instrumentation of
// the compiler's sanitizers calls hooks.cpp at each access; one worker runs its blocks one after the other.
#pragma once

#include "runtime.h"

// Of a function that is seldom called from where each access passes: the compiler puts it, and the calls of it, aside.
#define RARE __attribute__((cold))

namespace minigrad {

enum Access { READ, WRITE, ATOMIC, ENTER };  // ENTER: a stretch of code without branches begins

enum Wrong { RACE, OUTSIDE, UNINITIALISED, INDEX };  // as in problems.py; INDEX: outside its row or array

// Each buffer lies in the middle of a window of its own, so that an index too far is still known as its own: up to 2^32
// float4s, to which x[threadIdx.x - 1] goes as unsigned, or where the system has not that many addresses, 2^30 floats.
// All windows lie side by side, and the bits above these say which one.
constexpr unsigned WIDE = 37, NARROW = 33;
constexpr unsigned MAX_VARIABLES = 255, MAX_FINDINGS = 512, MAX_OPENED = 1024, PLACES = 4 * MAX_OPENED, BENIGN = 16;
constexpr unsigned THREAD_BITS = 10;

// An access that is remembered. Epochs count the starts of blocks and the barriers of the whole launch; two accesses of
// one epoch and different threads are ordered by nothing but a __syncwarp, and for that each thread has a clock.
struct Stamp {
    uint32_t epoch;  // 0: never
    uint32_t place;  // thread in the block, and its clock above it
    uint32_t pc : 30, relaxed : 1, narrow : 1;  // in the kernel's file; volatile or atomic; atomic for its block alone
    unsigned thread() const { return place % (1u << THREAD_BITS); }
    uint32_t clock() const { return place >> THREAD_BITS; }
};

// What is remembered of an element: two accesses of a kind, of different warps where there are such. Mostly these are
// enough; see kept.cpp.
struct Cell {
    Stamp write, reads[2];
};
struct Pair {
    Stamp at[2];
    uint64_t serial[2];  // how many there were before it, atomics and releases
};

// A buffer, or a __shared__ array. ctypes reads it: see native.py.
struct Variable {
    char* start;
    uint64_t bytes;
    Cell* cells;
    Pair* atomics;   // nullptr until the first atomic
    uint64_t count;  // of cells
    uint32_t shift;  // a cell is for 2^shift bytes, the fewest that some access takes
    uint32_t shared;
    uint32_t element, align, dims, extent[8];  // the size and the alignment of an element
    char name[64];
};

// Bytes beside a __device__ variable that belong to none, as many as it has.
struct Zones {
    char* start[2];
};

struct Finding {
    int32_t wrong, access, variable;  // variable: -1 unknown
    uint32_t count, pc, block, thread;
    uint32_t other_access, other_pc, other_block, other_thread;
    int32_t line, column;
    int64_t offset;     // in bytes from the variable's start, or the address; of INDEX the index
    const char* file;   // of INDEX, with line and column; all others have a pc
    const char* type;   // of INDEX: of the array, as 'float [8]'
};

// One access of one thread in a block that is looked at closely.
struct Record {
    uint32_t pc, block, phase, sync;  // barriers before it in the block; warp operations since the last of these
    uint16_t thread;
    uint8_t access, variable;
    uint32_t bytes;
    int64_t offset;  // of ENTER, where the function's stack is
    uint64_t turn;   // which turn of which loops it was in; see turns.cpp
};

struct Watch {
    bool on, recording;
    bool full;                    // there was no room for all records
    uint32_t vectors;             // 16 where the file speaks of float4 or its like, 8: of float2; 64, 32: of alignas
    uint32_t pc;                  // of the last that was seen
    Worker* worker;
    unsigned window_bits;
    uint64_t arena, shared, base;  // where the windows, shared memory and the kernel's file begin
    uint64_t arena_bytes;
    uint64_t packed, packed_bytes, benign[BENIGN];  // harmless memory: the arguments, pages found to be so
    unsigned buffers, devices, variables;  // the __device__ variables follow the buffers, and the shared ones these
    uint32_t dynamic;              // bytes of dynamic shared memory
    Zones zones[MAX_VARIABLES];    // of the __device__ variables
    // order
    uint32_t epoch, first_epoch;   // now, and at the block's start
    uint32_t block;                // how many began before it
    uint32_t* block_epochs;        // first_epoch of each block, in the order in which they began
    bool reversed;                 // the last block and the last thread begin first
    uint64_t looked;               // where a volatile access last read
    unsigned glances;              // such reads, each elsewhere than the one before
    bool turnable;                 // an order hangs on a release, or on which block came first to a word
    uint32_t clock[MAX_THREADS];
    uint32_t seen[MAX_THREADS][WARP];  // what a thread knows of the clocks of its warp
    bool dirty;                        // some clock is not at its start
    uint64_t serial;                   // of the last atomic or release
    bool careful;                      // the file has fences, or a __syncwarp of some lanes
    void* kept;                        // then, what is remembered beyond two; see kept.cpp
    void* fences;                      // once a thread has passed one; see fences.cpp
    // records
    uint64_t blocks;               // so many are recorded
    Record* records;
    uint64_t count, room, limit;
    uint32_t sync[MAX_THREADS];
    Variable variable[MAX_VARIABLES + 1];
    uint8_t slot[SHARED_ROOM / 16];  // which variable has these 16 bytes of shared memory; MAX_VARIABLES: none
    Finding findings[MAX_FINDINGS];
    unsigned found, lost;  // lost: there was no room for them
    char* opened[PLACES];          // pages outside the buffers that were made accessible; see access.cpp
    unsigned opens;
};

extern Watch watch;

inline bool in_shared(uint64_t address) { return address - watch.shared < SHARED_ROOM; }
inline bool near_shared(uint64_t address) { return address - watch.shared + GUARD < SHARED_ROOM + 2 * GUARD; }

// Called by the runtime. A launch that nobody watches asks for one flag at each.
void watch_block(Worker& worker, uint64_t number);
void watch_barrier();
void watch_warp(unsigned warp, unsigned lanes, const char* what);
Pair* make_atomics(Variable& variable);
void refine(Variable& variable, unsigned shift);
uint32_t block_of(uint32_t epoch);
uint32_t number_of(uint32_t block);
// fences.cpp; but for the first, only where watch.fences is set
void pass_fence(bool device);
void acquire_at(uint64_t address, bool device);
void release_at(uint64_t address, bool device);
void begin_write();  // of a volatile one
void end_write(uint64_t address);
void share_known(unsigned first, unsigned lanes);
void meet_known();
void begin_known();
RARE bool released(const Stamp& before, unsigned self);
RARE bool passed(const char* cell, uint64_t serial, unsigned self);
void forget_fences();
void number_turns();
void forget_kept();

}  // namespace minigrad
