#include "reduce.cuh"

// Both kernels: block -> one row of logits; thread -> every BLOCK-th class of it. The softmax is never stored:
// recomputing it in the backward pass costs less than writing it and reading it again.

struct Normalizer {
    real most, log_sum;  // of a row: max(x), and log(sum(exp(x - max)))
};

__device__ Normalizer normalizer(const real* x, int classes) {
    real most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        most = Max()(most, x[i]);
    }
    most = block_max(most);
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        sum += exp(x[i] - most);
    }
    return {most, log(block_sum(sum))};
}

// loss = log(sum(exp(x))) - x[label]. A label that is no class makes the loss NaN; nothing is read through it.
extern "C" __global__ void cross_entropy_forward(
    const real* logits, const long long* labels, real* losses, int classes) {
    const real* x = logits + blockIdx.x * classes;
    Normalizer row = normalizer(x, classes);
    if (threadIdx.x == 0) {
        long long label = labels[blockIdx.x];
        bool known = 0 <= label && label < classes;
        losses[blockIdx.x] = known ? row.most - x[label] + row.log_sum : NAN;
    }
}

// dx = (softmax(x) - onehot(label)) * dy * scale. `step` is 0 where one dy serves all rows, else 1.
extern "C" __global__ void cross_entropy_backward(
    const real* dy, const real* logits, const long long* labels, real* dx, int classes, int step, real scale) {
    const real* x = logits + blockIdx.x * classes;
    dx += blockIdx.x * classes;
    Normalizer row = normalizer(x, classes);
    long long label = labels[blockIdx.x];
    bool known = 0 <= label && label < classes;
    real upstream = known ? dy[blockIdx.x * step] * scale : NAN;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        dx[i] = (exp(x[i] - row.most - row.log_sum) - (i == label ? 1 : 0)) * upstream;
    }
}
