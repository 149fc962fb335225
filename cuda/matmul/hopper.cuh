// Instructions of Hopper (sm_90a) alone: a copy engine that fetches whole boxes of a matrix, barriers that count its bytes,
// and products that four warps start together on tiles in shared memory. C++ has no expression for them, so this is PTX.
#pragma once
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "wgmma is an instruction of Hopper GPUs (sm_90a) alone; others from sm_90 on: matmul.using('mma_bf16')"
#endif
#include "common.cuh"

typedef unsigned long long Barrier;                           // in shared memory
typedef unsigned long long Tile;                              // the descriptor of a tile for wgmma
struct alignas(64) TensorMap { unsigned long long word[16]; };  // a matrix as the copy engine reads it; made by the driver

__device__ inline unsigned shared_address(const void* p) { return __cvta_generic_to_shared(p); }

// A barrier has phases 0, 1, 0, 1, ...; one ends when `count` threads and all expected bytes have arrived.
__device__ inline void barrier_init(Barrier* barrier, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
}

// Makes new barriers visible to the copy engine.
__device__ inline void barriers_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ inline void barrier_arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives; the phase then also waits for this many bytes of copies.
__device__ inline void barrier_expect(Barrier* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Waits for the end of the phase of this parity.
__device__ inline void barrier_wait(Barrier* barrier, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@done bra over;\nbra again;\n"
        "over:\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// One thread starts the copy of a box that begins at column x, row y of matrix z; zeros outside of the matrix. Each row
// of the box is 128 bytes. They are swizzled: the i-th 16 bytes of row y are stored at position i ^ y % 8, so that columns
// of the box can be read without bank conflicts, too.
__device__ inline void copy_box(void* to, const TensorMap* map, int x, int y, int z, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
            shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z) : "memory");
}

// The same for images (N, H, W, C): 128 bytes of channels from c on, of pixel (n, h, v) and those after it, moved by the tap
// (down, across) of a window; the map knows how many pixels, their stride and where each row of them ends.
__device__ inline void copy_pixels(
    void* to, const TensorMap* map, int c, int v, int h, int n, int across, int down, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
        "[%2], {%7, %8};" ::"r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(c), "r"(v), "r"(h), "r"(n),
        "h"((unsigned short)across), "h"((unsigned short)down) : "memory");
}

// A tile in swizzled rows of 128 bytes, in groups of eight that are 1024 bytes apart; where a row of the tile is longer,
// its next 128 bytes are `next` bytes further on. The instruction takes addresses in units of 16 bytes.
__device__ inline Tile describe(const void* tile, int next) {
    constexpr Tile EIGHT = 1024 >> 4, SWIZZLED = 1;
    return (shared_address(tile) >> 4 & 0x3fff) | (Tile)(next >> 4) << 16 | EIGHT << 32 | SWIZZLED << 62;
}

// A product owns its registers from the fence until the wait for its committed group. All of them are operands of both
// instructions, so that the compiler moves no use of one across either.
#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define ALL_16 SIXTEEN(0)
#define ALL_32 ALL_16, SIXTEEN(16)
#define ALL_64 ALL_32, SIXTEEN(32), SIXTEEN(48)
#define ALL_80 ALL_64, SIXTEEN(64)
#define ALL_96 ALL_80, SIXTEEN(80)
#define ALL_128 ALL_64, SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)
#define NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES_32 NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_64                                                                                                              \
    NAMES_32                                                                                                                  \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,"   \
    "%61,%62,%63"
#define NAMES_80 NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define NAMES_96 NAMES_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define NAMES_128                                                                                                             \
    NAMES_96                                                                                                                  \
    ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,"             \
    "%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// With N numbers of c in each lane, pairs, 8 columns apart, of two rows, these are the fence, the wait until all groups but
// the last PENDING ones are complete, and two products by four warps, asynchronous, of bfloat16:
// c += a @ b, (64, 16) @ (16, 2 N), and without ADD c = a @ b; then the same with the first factor in registers, where a
// lane holds what it would of c, in bfloat16. TURNED: the tile is stored transposed, with the sum down the columns.
// P: the numbers of the operands that come after c.
#define WGMMA(N, COLUMNS, P0, P1, P2, P3, P4, P5, P6)                                                                         \
    __device__ inline void wgmma_fence(float (&c)[N]) { asm volatile("wgmma.fence.sync.aligned;" : ALL_##N : : "memory"); }    \
    template <int PENDING>                                                                                                    \
    __device__ void wgmma_wait(float (&c)[N]) {                                                                               \
        asm volatile("wgmma.wait_group.sync.aligned " P0 ";" : ALL_##N : "n"(PENDING) : "memory");                             \
    }                                                                                                                         \
    template <bool A_TURNED, bool B_TURNED, bool ADD = true>                                                                  \
    __device__ void wgmma(float (&c)[N], Tile a, Tile b) {                                                                    \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32.bf16.bf16 {" NAMES_##N "}, " P0 ", " P1 ", " P2     \
                     ", 1, 1, " P3 ", " P4 ";"                                                                                \
                     : ALL_##N : "l"(a), "l"(b), "n"(ADD), "n"(A_TURNED), "n"(B_TURNED));                                     \
    }                                                                                                                         \
    template <bool B_TURNED, bool ADD = true>                                                                                 \
    __device__ void wgmma(float (&c)[N], const unsigned (&a)[4], Tile b) {                                                    \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32.bf16.bf16 {" NAMES_##N "}, {" P0 ", " P1 ", " P2    \
                     ", " P3 "}, " P4 ", " P5 ", 1, 1, " P6 ";"                                                               \
                     : ALL_##N : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(ADD), "n"(B_TURNED));                \
    }
WGMMA(16, "32", "%16", "%17", "%18", "%19", "%20", "%21", "%22")
WGMMA(32, "64", "%32", "%33", "%34", "%35", "%36", "%37", "%38")
WGMMA(64, "128", "%64", "%65", "%66", "%67", "%68", "%69", "%70")
WGMMA(80, "160", "%80", "%81", "%82", "%83", "%84", "%85", "%86")
WGMMA(96, "192", "%96", "%97", "%98", "%99", "%100", "%101", "%102")
WGMMA(128, "256", "%128", "%129", "%130", "%131", "%132", "%133", "%134")

// The same of TF32, (64, 8) @ (8, 2 N), with the sum along the rows of both tiles, the only way that it takes.
#define WGMMA_TF32(N, COLUMNS, P0, P1)                                                                                        \
    __device__ inline void wgmma_tf32(float (&c)[N], Tile a, Tile b) {                                                        \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" COLUMNS "k8.f32.tf32.tf32 {" NAMES_##N "}, " P0 ", " P1 ", 1, 1, 1;"  \
                     : ALL_##N : "l"(a), "l"(b));                                                                             \
    }
WGMMA_TF32(64, "128", "%64", "%65")
WGMMA_TF32(80, "160", "%80", "%81")
WGMMA_TF32(96, "192", "%96", "%97")
WGMMA_TF32(128, "256", "%128", "%129")
#undef FOUR
#undef SIXTEEN
#undef ALL_16
#undef ALL_32
#undef ALL_64
#undef ALL_80
#undef ALL_96
#undef ALL_128
#undef NAMES_16
#undef NAMES_32
#undef NAMES_64
#undef NAMES_80
#undef NAMES_96
#undef NAMES_128
#undef WGMMA
#undef WGMMA_TF32

// Makes this thread's stores to shared memory visible to later copies and products, once a barrier has followed.
__device__ inline void stores_ready() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The registers of a thread from here on, for all threads of four warps: what some give up, others can take.
template <int COUNT>
__device__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT>
__device__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }

// A barrier of the first COUNT threads of a block.
template <int COUNT>
__device__ void first_threads_meet() { asm volatile("bar.sync 1, %0;" ::"n"(COUNT) : "memory"); }

// Two neighbors, rounded to bfloat16.
__device__ inline unsigned to_bf16(float first, float second) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}

// Four lanes have two rows each of four columns; after it each has two columns of four rows: an 8 x 8 matrix transposed.
__device__ inline unsigned transposed(unsigned pair) {
    unsigned turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
    return turned;
}
