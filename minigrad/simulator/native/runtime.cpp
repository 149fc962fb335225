// The whole runtime as one file for the compiler, which is three times as fast as file by file.
//
// It is C++ without the C++ library: no new, no exception, no container. Its names are visible to whatever is loaded
// later. A compiler that has the library as an archive alone would put half of it here, __cxa_throw and all, and other
// extension modules would take their exceptions from this half and the rest from the process's own.
#include "variables.cpp"
#include "watch.cpp"
#include "memory.cpp"
#include "print.cpp"
#include "block.cpp"
#include "barrier.cpp"
#include "warp.cpp"
#include "faults.cpp"
#include "watchdog.cpp"
#include "workers.cpp"
#include "grid.cpp"
#include "horizons.cpp"
#include "kept.cpp"
#include "access.cpp"
#include "fences.cpp"
#include "turns.cpp"
#include "hooks.cpp"

// What ctypes and NumPy read, in runtime.py and native.py, has to be as large there; a test compares.
MINIGRAD_EXPORT const uint32_t* minigrad_sizes() {
    static const uint32_t sizes[] = {sizeof(Order), sizeof(Report), sizeof(WatchOrder), sizeof(WatchAnswer),
                                     sizeof(Variable), sizeof(Finding), sizeof(Record), sizeof(Cell), sizeof(Pair)};
    return sizes;
}
