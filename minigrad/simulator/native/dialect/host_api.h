// The host's side of CUDA, declared: classes of both sides have methods that call it. A kernel that does so does not
// compile.
#pragma once

#ifdef __GLIBC__
enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
typedef cudaError_t cudaError;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum { cudaMemAttachGlobal = 1, cudaMemAttachHost = 2 };
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

#define MINIGRAD_HOST(name)                                                                               \
    template <class... Arguments>                                                                         \
    __attribute__((error("it is a function of the host, not of a kernel"))) cudaError_t name(Arguments&&...);
MINIGRAD_HOST(cudaMalloc) MINIGRAD_HOST(cudaMallocManaged) MINIGRAD_HOST(cudaMallocHost) MINIGRAD_HOST(cudaMallocPitch)
MINIGRAD_HOST(cudaHostAlloc) MINIGRAD_HOST(cudaFree) MINIGRAD_HOST(cudaFreeHost) MINIGRAD_HOST(cudaMemset)
MINIGRAD_HOST(cudaMemcpy) MINIGRAD_HOST(cudaMemcpyAsync) MINIGRAD_HOST(cudaMemcpy2D) MINIGRAD_HOST(cudaMemsetAsync)
MINIGRAD_HOST(cudaMemcpyToSymbol) MINIGRAD_HOST(cudaMemcpyFromSymbol) MINIGRAD_HOST(cudaMemPrefetchAsync)
MINIGRAD_HOST(cudaDeviceSynchronize) MINIGRAD_HOST(cudaThreadSynchronize) MINIGRAD_HOST(cudaDeviceReset)
MINIGRAD_HOST(cudaGetDevice) MINIGRAD_HOST(cudaSetDevice) MINIGRAD_HOST(cudaGetDeviceCount)
MINIGRAD_HOST(cudaStreamCreate) MINIGRAD_HOST(cudaStreamSynchronize) MINIGRAD_HOST(cudaStreamDestroy)
MINIGRAD_HOST(cudaEventCreate) MINIGRAD_HOST(cudaEventRecord) MINIGRAD_HOST(cudaEventSynchronize)
MINIGRAD_HOST(cudaEventElapsedTime) MINIGRAD_HOST(cudaEventDestroy)
MINIGRAD_HOST(cudaGetLastError) MINIGRAD_HOST(cudaPeekAtLastError)
#undef MINIGRAD_HOST
const char* cudaGetErrorString(cudaError_t) __attribute__((error("it is a function of the host, not of a kernel")));
#endif
