// How fast each level of memory brings numbers: the same kernels, and only the size of their array decides where it is
// found. x of a few KB stays in L1, of some MB in L2; a larger one comes from global memory.

constexpr int SHARED = 2048;  // vectors in shared memory, 32 KB

__device__ float total(float4 v) {
    return v.x + v.y + v.z + v.w;
}

// sums[thread] = the sum of the vectors that the thread reads. Each block walks through the n vectors of x from a place
// of its own, all its threads side by side, and from the end on to the start. n is a multiple of the block. The places of
// neighboring blocks are far apart: on one multiprocessor, a block must not find what the other has just left in L1.
extern "C" __global__ void stream(const float4* x, float* sums, long long n, int steps) {
    long long place = 61ll * blockIdx.x % gridDim.x;
    long long at = n / gridDim.x * place / blockDim.x * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll 8
    for (int s = 0; s < steps; s++) {
        sum += total(x[at]);
        at = at + blockDim.x < n ? at + blockDim.x : threadIdx.x;
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The same from shared memory, where vector i is (i, i, i, i).
extern "C" __global__ void stream_shared(float* sums, int steps) {
    __shared__ float4 x[SHARED];
    for (int i = threadIdx.x; i < SHARED; i += blockDim.x) {
        x[i] = make_float4(i, i, i, i);
    }
    __syncthreads();
    float sum = 0;
#pragma unroll 8
    for (int s = 0; s < steps; s++) {
        sum += total(x[(threadIdx.x + 32 * s) % SHARED]);
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// last = the place after `steps` hops from place 0, where next[i] follows place i. A hop waits for the one before it.
extern "C" __global__ void chase(const int* next, int* last, int steps) {
    int at = 0;
    for (int s = 0; s < steps; s++) {
        at = next[at];
    }
    *last = at;
}

// The same in shared memory, where place i + 33 follows place i. One thread.
extern "C" __global__ void chase_shared(int* last, int steps) {
    __shared__ int next[4 * SHARED];
    for (int i = 0; i < 4 * SHARED; i++) {
        next[i] = (i + 33) % (4 * SHARED);
    }
    int at = 0;
    for (int s = 0; s < steps; s++) {
        at = next[at];
    }
    *last = at;
}
