// The whole runtime as one translation unit, which compiles three times as fast as separate files.
//
// It is C++ without the C++ library: no new, no exceptions, no containers. Its names are visible to all libraries
// loaded later. A compiler that has only the archive of the library would link half of it here, including __cxa_throw,
// and other extension modules would take part of their exception handling from here and the rest from the process's own
// library.
#include "variables.cpp"
#include "watched_launch.cpp"
#include "memory.cpp"
#include "print.cpp"
#include "block.cpp"
#include "barrier.cpp"
#include "warp.cpp"
#include "tensor_cores.cpp"
#include "faults.cpp"
#include "watchdog.cpp"
#include "workers.cpp"
#include "grid.cpp"
#include "release_log.cpp"
#include "access_history.cpp"
#include "findings.cpp"
#include "copies.cpp"
#include "unset.cpp"
#include "access.cpp"
#include "release_acquire.cpp"
#include "loop_iterations.cpp"
#include "hooks.cpp"

// The sizes of what ctypes and NumPy read, in runtime.py and native.py; a test compares them.
MINIGRAD_EXPORT const uint32_t* minigrad_sizes() {
    static const uint32_t sizes[] = {
        sizeof(LaunchRequest), sizeof(FaultReport), sizeof(WatchRequest), sizeof(WatchResult), sizeof(Variable),
        sizeof(Finding), sizeof(Record), sizeof(Cell), sizeof(AtomicCell)};
    return sizes;
}
