// Memory between guard pages, which the processor refuses to touch: running over an end is found where it happens.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

namespace minigrad {

// What fresh memory and the gaps around buffers hold: NaN as float and as double, an absurd index as int.
static const uint32_t CANARY = 0x7ff7a5a5;

size_t page_size() {
    static const size_t size = sysconf(_SC_PAGESIZE);
    return size;
}

char* map_guarded(size_t bytes) {
    void* all = mmap(nullptr, bytes + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    char* inside = static_cast<char*>(all) + GUARD;
    if (mprotect(inside, bytes, PROT_READ | PROT_WRITE) == 0) return inside;
    munmap(all, bytes + 2 * GUARD);
    return nullptr;
}

static bool intact(const char* start, const char* end) {
    for (; start != end; ++start)
        if (*start != reinterpret_cast<const char*>(&CANARY)[reinterpret_cast<uintptr_t>(start) % 4]) return false;
    return true;
}

static void fill(char* start, size_t bytes) {  // from an address of canary phase 0
    for (size_t i = 0; i < bytes; i += 4) memcpy(start + i, &CANARY, 4);
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT void* minigrad_map(size_t bytes) { return map_guarded(bytes); }
MINIGRAD_EXPORT void minigrad_unmap(char* inside, size_t bytes) { munmap(inside - GUARD, bytes + 2 * GUARD); }

MINIGRAD_EXPORT void minigrad_fill(char* pages, size_t bytes) { fill(pages, bytes); }

// The first buffer that was written beside its ends, in the bytes that lie in its own pages; -1 if none. It is mended.
MINIGRAD_EXPORT int minigrad_damaged(int count, const uint64_t (*buffers)[2]) {
    for (int i = 0; i < count; ++i) {
        char* start = reinterpret_cast<char*>(buffers[i][0]);
        char* end = start + buffers[i][1];
        char* page = reinterpret_cast<char*>(buffers[i][0] & ~(page_size() - 1));
        char* last = reinterpret_cast<char*>((reinterpret_cast<uint64_t>(end) + 15) & ~uint64_t(15));
        if (intact(page, start) && intact(end, last)) continue;
        fill(page, start - page);
        for (char* at = end; at != last; ++at) *at = reinterpret_cast<const char*>(&CANARY)[reinterpret_cast<uint64_t>(at) % 4];
        return i;
    }
    return -1;
}
