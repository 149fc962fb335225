// CUDA's runtime for tests of host code without a GPU: kernels run in a loop over their threads, so they may have no
// barrier. Memory of the "GPU" starts as 0xff, and each copy must name the right direction.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>

#define __global__
#define __device__
using std::max;
using std::min;
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

struct Memory : std::map<char*, size_t> {
    ~Memory() {
        if (!empty()) _Exit(9);  // something was not freed
    }
    bool holds(const void* pointer, size_t bytes) const {
        for (auto [start, size] : *this)
            if (start <= pointer && (const char*)pointer + bytes <= start + size) return true;
        return false;
    }
};
static Memory memory;
static bool ended = true;  // the kernel has been waited for

inline const char* cudaGetErrorString(cudaError_t) { return "invalid argument"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return ended = true, cudaSuccess; }

template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
    char* start = (char*)malloc(bytes);
    memset(start, 0xff, bytes);
    memory[start] = bytes;
    *pointer = (T*)start;
    return cudaSuccess;
}

template <class T>
cudaError_t cudaFree(T* pointer) { return memory.erase((char*)pointer) ? cudaSuccess : cudaErrorInvalidValue; }

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    bool down = kind == cudaMemcpyDeviceToHost;
    if (!ended || memory.holds(to, bytes) == down || memory.holds(from, bytes) != down) return cudaErrorInvalidValue;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

template <class Kernel, class... Arguments>
void launch(Kernel kernel, dim3 grid, dim3 block, Arguments... arguments) {
    gridDim = grid, blockDim = block, ended = false;
    for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
                for (threadIdx.z = 0; threadIdx.z < block.z; ++threadIdx.z)
                    for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
                        for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x) kernel(arguments...);
}
