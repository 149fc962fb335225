// Memory between inaccessible guard pages: the processor finds an overrun where it happens.
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime.h"

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

namespace minigrad {

size_t page_size() {
    static const size_t size = sysconf(_SC_PAGESIZE);
    return size;
}

char* map_guarded(size_t bytes, size_t guard) {
    void* all = mmap(nullptr, bytes + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    char* inside = static_cast<char*>(all) + guard;
    if (mprotect(inside, bytes, PROT_READ | PROT_WRITE) == 0) return inside;
    munmap(all, bytes + 2 * guard);
    return nullptr;
}

// An index with two axes swapped goes far out of bounds. Address space costs nothing, unless it is limited.
size_t wide_guard() {
    static size_t guard;
    rlimit most;
    if (!guard) guard = getrlimit(RLIMIT_AS, &most) || most.rlim_cur != RLIM_INFINITY ? GUARD : 1024 * GUARD;
    return guard;
}

// The largest page of any system, filled with canaries.
static const char* canaries() {
    static uint32_t page[64 * 1024 / 4];
    if (!page[0])
        for (uint32_t& word : page) word = CANARY;
    return reinterpret_cast<const char*>(page);
}

static void fill(char* pages, size_t bytes) {
    for (size_t done = 0; done < bytes; done += page_size()) memcpy(pages + done, canaries(), page_size());
}

// True if the bytes still hold the canary. If not, it is restored.
static bool check(char* start, char* end) {
    const char* expected = canaries() + reinterpret_cast<uintptr_t>(start) % 4;
    if (!memcmp(start, expected, end - start)) return true;
    memcpy(start, expected, end - start);
    return false;
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT void* minigrad_map(size_t bytes) { return map_guarded(bytes, wide_guard()); }
MINIGRAD_EXPORT void minigrad_unmap(char* inside, size_t bytes) {
    munmap(inside - wide_guard(), bytes + 2 * wide_guard());
}

MINIGRAD_EXPORT void minigrad_fill(char* pages, size_t bytes) { fill(pages, bytes); }

// The first buffer with a write out of bounds but within its pages; -1 if none.
MINIGRAD_EXPORT int minigrad_damaged(int count, const uint64_t (*buffers)[2]) {
    for (int i = 0; i < count; ++i) {
        uint64_t start = buffers[i][0], end = start + buffers[i][1];
        uint64_t page = start & ~uint64_t(page_size() - 1), last = (end + 15) & ~uint64_t(15);
        bool before = check(reinterpret_cast<char*>(page), reinterpret_cast<char*>(start));
        bool after = check(reinterpret_cast<char*>(end), reinterpret_cast<char*>(last));
        if (!before || !after) return i;
    }
    return -1;
}
