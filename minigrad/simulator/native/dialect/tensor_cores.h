// Tensor cores: the instructions of cuda/matmul/mma.cuh. A lane brings the address of its registers to the exchange, and
// the last one to arrive works on those of all; see tensor_cores.cpp.
#pragma once

namespace minigrad {

MINIGRAD_INLINE void exchange_fragments(const unsigned (&first)[4], unsigned second0, unsigned second1, void* result,
                                        Finish* finish, const Site& site) {
    Fragments own = {&site, first, {second0, second1}, result};
    WarpOperand operand = {~0u, 0, reinterpret_cast<uint64_t>(&own), finish};
    minigrad_exchange(&site, &operand);
}

// Four matrices of 8 rows, of which each lane has read one.
MINIGRAD_INLINE void load_matrices(unsigned (&own)[4], uint4 row, MINIGRAD_HERE) {
    unsigned words[4] = {row.x, row.y, row.z, row.w};
    exchange_fragments(words, 0, 0, own, minigrad_load_matrices, {"ldmatrix", file, line});
}
MINIGRAD_INLINE void load_transposed(unsigned (&own)[4], uint4 row, MINIGRAD_HERE) {
    unsigned words[4] = {row.x, row.y, row.z, row.w};
    exchange_fragments(words, 0, 0, own, minigrad_load_transposed, {"ldmatrix", file, line});
}
MINIGRAD_INLINE void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, MINIGRAD_HERE) {
    exchange_fragments(a, b0, b1, c, minigrad_mma_bf16, {"mma", file, line});
}
MINIGRAD_INLINE void mma_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, MINIGRAD_HERE) {
    exchange_fragments(a, b0, b1, c, minigrad_mma_tf32, {"mma", file, line});
}

// The bits of the nearest float of which the last `dropped` bits are 0; ties to even.
MINIGRAD_INLINE unsigned rounded(unsigned bits, int dropped) {
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffffff;  // NaN, as a GPU writes it
    return (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped << dropped;
}

}  // namespace minigrad
