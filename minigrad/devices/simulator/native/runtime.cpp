// The whole runtime as one file for the compiler, which is three times as fast as file by file.
#include "memory.cpp"
#include "print.cpp"
#include "block.cpp"
#include "warp.cpp"
#include "faults.cpp"
#include "watchdog.cpp"
#include "grid.cpp"
