// A thread's own variables that nobody has set.
#include <string.h>

#include "shadow_memory.h"

namespace minigrad {

static inline bool on_stack(uint64_t address) {
    return address - reinterpret_cast<uint64_t>(watch.worker->current->stack()) < STACK_PAGES * page_size();
}

// What a word on the stack holds while nobody has set it, of an array, of another variable of which each read is seen, or
// of one of which only updates are: far from 0, and by its address, so that it is no constant of the program.
enum Unset : uint32_t { SET, NUMBER = 0xfc000000, UPDATED = 0xfd000000, ARRAY = 0xfe000000 };

static inline uint32_t unset_word(uint64_t address, uint32_t kind) {
    uint64_t place = address - reinterpret_cast<uint64_t>(watch.worker->current->stack());
    return kind | uint32_t(place * 0x9e3779b97f4a7c15 >> 40);  // 2^64 over the golden ratio
}

// A variable of fewer than four bytes may hold anything by chance. So its place is kept, too, until it is written; of two
// in one slot the later one. What it holds is NaN of a half.
constexpr int SMALL_BYTE = 0xfd;
constexpr uint64_t ADDRESS = (uint64_t(1) << 56) - 1;  // the kind is above it

static inline uint64_t& small_variable(uint64_t address) {
    return watch.small_variable[(address * 0x9e3779b97f4a7c15) >> 54];
}
static void set_small(uint64_t address, unsigned bytes) {
    for (uint64_t end = address + bytes; address < end; ++address)
        if ((small_variable(address) & ADDRESS) == address) small_variable(address) = 0;
}
static void unset_small(uint64_t address, unsigned bytes, Unset kind) {
    memset(reinterpret_cast<void*>(address), SMALL_BYTE, bytes);
    small_variable(address) = address | uint64_t(kind >> 24) << 56;
    watch.small_variables = true;
}
static Unset small_unset_at(uint64_t address, unsigned bytes) {
    uint64_t known = small_variable(address);
    if (!watch.small_variables || (known & ADDRESS) != address) return SET;
    for (unsigned at = 0; at < bytes; ++at)
        if (reinterpret_cast<const uint8_t*>(address)[at] != SMALL_BYTE) return SET;
    return Unset(uint32_t(known >> 56) << 24);
}

static inline Unset unset_at(uint64_t address, unsigned bytes) {
    uint32_t word, kind = SET;
    if (!watch.worker) return SET;  // a file is being loaded
    if (bytes < sizeof word) {      // a variable by itself, or a part of a word of which nothing has been set
        Unset small = small_unset_at(address, bytes);
        return small ? small : unset_at(address & ~uint64_t(3), sizeof word);
    }
    if (address % sizeof word) return SET;
    for (unsigned at = 0; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, reinterpret_cast<const void*>(address + at), sizeof word);
        if (!kind) kind = word & 0xff000000;
        if (kind < NUMBER || kind > ARRAY || word != unset_word(address + at, kind)) return SET;
    }
    return Unset(kind);
}

static inline void on_local_read(uint64_t address, unsigned bytes, uint32_t pc) {
    Unset kind = unset_at(address, bytes);
    if (__builtin_expect(kind != ARRAY && kind != NUMBER, 1)) return;
    if (Finding* finding = find(ELEMENT, READ, -1, pc, 0)) finding->extent = kind == ARRAY;
}

// A variable has been declared without a value.
static void begin_unset(uint64_t address, unsigned bytes, Unset kind) {
    uint64_t word = (address + 3) / 4 * 4, end = address + bytes;
    if (!on_stack(word)) return;  // `__shared__ alignas(8) char s[64];` too looks like one from its last bracket on
    if (bytes < 4 && kind != ARRAY) return unset_small(address, bytes, kind);
    for (; word + 4 <= end; word += 4) *reinterpret_cast<uint32_t*>(word) = unset_word(word, kind);
}

}  // namespace minigrad
