// The variables of a watched launch, with their shadow cells.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shadow_memory.h"

namespace minigrad {

static char* map_zeros(size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

static bool make_cells(Variable& variable) {
    variable.count = (variable.bytes >> variable.shift) + 1;
    variable.cells = reinterpret_cast<Cell*>(map_zeros(variable.count * sizeof(Cell)));
    return variable.cells;
}

AtomicCell* make_atomics(Variable& variable) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    variable.atomics = reinterpret_cast<AtomicCell*>(map_zeros(variable.count * sizeof(AtomicCell)));
    if (!variable.atomics) fail(SYSTEM, nullptr, 0, "the system has no memory to watch %s", variable.name);
    leave_critical(worker);
    return variable.atomics;
}

// Each finer cell begins as a copy of the cell that contained it; most cells are untouched.
template <class T>
static T* split(T* coarse, uint64_t coarse_count, uint64_t count, unsigned by) {
    T* fine = reinterpret_cast<T*>(map_zeros(count * sizeof(T)));
    if (!fine) fail(SYSTEM, nullptr, 0, "the system has no memory to watch single bytes");
    static const T untouched = {};
    for (uint64_t i = 0; i < count; ++i)
        if (memcmp(&coarse[i >> by], &untouched, sizeof(T))) fine[i] = coarse[i >> by];
    munmap(coarse, coarse_count * sizeof(T));
    return fine;
}

// An access to part of an element: from now on each part has its own cell.
void refine(Variable& variable, unsigned shift) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    unsigned by = variable.shift - shift;
    uint64_t before = variable.count;
    variable.shift = shift;
    variable.count = (variable.bytes >> shift) + 1;
    variable.cells = split(variable.cells, before, variable.count, by);
    if (variable.atomics) variable.atomics = split(variable.atomics, before, variable.count, by);
    leave_critical(worker);
}

static unsigned granule(unsigned element) {
    return element == 1 ? 0 : element == 2 ? 1 : element == 8 ? 3 : 2;
}

static Variable named(const char* name, char* start, size_t bytes, unsigned element, unsigned align,
                      const uint32_t* extent) {
    Variable variable = {};
    variable.start = start;
    variable.bytes = bytes;
    variable.element = element;
    variable.align = align;
    variable.shift = granule(element);
    strncpy(variable.name, name, sizeof variable.name - 1);
    while (variable.dims < 8 && extent[variable.dims]) ++variable.dims;
    memcpy(variable.extent, extent, sizeof variable.extent);
    return variable;
}

// Add a variable of shared memory, when the first thread of the launch reaches its declaration.
static void add_shared(const char* name, char* start, size_t bytes, unsigned element, unsigned align,
                       bool partial, const uint32_t* extent) {
    Worker& worker = *watch.worker;
    worker.critical = 1;
    if (watch.variables == MAX_VARIABLES) fail(SYSTEM, nullptr, 0, "more than %u arrays", MAX_VARIABLES);
    Variable& variable = watch.variable[watch.variables] = named(name, start, bytes, element, align, extent);
    variable.shared = 1, variable.partial = partial;
    if (!make_cells(variable)) fail(SYSTEM, nullptr, 0, "the system has no memory to watch %s", name);
    size_t size = (bytes + 15) / 16 * 16, at = start - worker.shared, end = at + 2 * size;
    for (at -= size; at < end && at < SHARED_ROOM; at += 16) watch.slot[at / 16] = watch.variables;
    ++watch.variables;
    leave_critical(worker);
}

// The __device__ variables of all loaded files.
struct DeviceVariable {
    Variable variable;
    Zones zones;
    DeviceVariable* next;
};
static DeviceVariable* devices;

// True if the address is in the file of the kernel.
static bool in_kernel_file(const void* address) {
    Dl_info home;
    return dladdr(address, &home) && reinterpret_cast<uint64_t>(home.dli_fbase) == watch.base;
}

// The __device__ variables of the kernel's file.
static bool add_devices() {
    for (DeviceVariable* device = devices; device; device = device->next) {
        if (!in_kernel_file(device->variable.start)) continue;
        if (watch.variables == MAX_VARIABLES) return false;
        Variable& variable = watch.variable[watch.variables++] = device->variable;
        for (char* zone : device->zones.start) memset(zone, 0xff, variable.bytes);  // NaN for whoever reads there
        watch.zones[watch.devices++] = device->zones;
        if (!make_cells(variable)) return false;
    }
    return true;
}

}  // namespace minigrad

using namespace minigrad;

// A watched kernel describes its __shared__ variables as it reaches them; 0 bytes: the dynamic one.
MINIGRAD_EXPORT void minigrad_describe(const char* name, char* start, size_t bytes, unsigned element,
                                       unsigned align, int partial, const uint32_t* extent) {
    if (!bytes) bytes = watch.dynamic;
    for (unsigned i = watch.buffers; i < watch.variables; ++i)
        if (watch.variable[i].start == start) return;
    add_shared(name, start, bytes, element, align, partial, extent);
}

// And its __device__ variables when its file is loaded, for good.
MINIGRAD_EXPORT void minigrad_describe_device(const char* name, char* start, size_t bytes, unsigned element,
                                              unsigned align, const uint32_t* extent, char* const* zones) {
    void* memory = malloc(sizeof(DeviceVariable));  // no new: see runtime.cpp
    if (!memory) abort();                           // no launch runs that could fail
    DeviceVariable device = {named(name, start, bytes, element, align, extent), {zones[0], zones[1]}, devices};
    devices = static_cast<DeviceVariable*>(memcpy(memory, &device, sizeof device));
}
