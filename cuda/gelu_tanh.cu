#include "column_sums.cuh"
#include "quick.cuh"

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x ^ 3): the weight of x in gelu_tanh. By the
// exponential it needs half as many instructions, and no digits are lost where tanh(u) is close to -1.
__device__ inline wide gelu_weight(wide x) {
    return quick_inverse(1 + quick_exp(wide(-2 * 0.79788456080286536) * (x + wide(0.044715) * x * x * x)));
}

__device__ inline wide gelu_tanh_slope(wide x) {
    wide s = gelu_weight(x), inner = wide(2 * 0.79788456080286536) * (1 + wide(3 * 0.044715) * x * x);
    return s + x * (s * (1 - s)) * inner;
}

// y = x * (1 + tanh(u)) / 2. thread -> one element.
extern "C" __global__ void gelu_tanh_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * gelu_weight(x[i]);
    }
}

// dx = dy * (1 + t + x * (1 - t * t) * u') / 2, t = tanh(u). thread -> one element.
extern "C" __global__ void gelu_tanh_backward(const real* dy, const real* x, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] * gelu_tanh_slope(x[i]);
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void gelu_tanh_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return x * gelu_weight(x); }, x);
}

extern "C" __global__ void gelu_tanh_vectorized_backward(const real* dy, const real* x, real* dx, int n) {
    map(dx, n, [](wide dy, wide x) { return dy * gelu_tanh_slope(x); }, dy, x);
}

// y = gelu_tanh(x + bias), of rows of `columns`. thread -> PER_THREAD neighbors
extern "C" __global__ void bias_gelu_tanh_forward(const real* x, const wide* bias, real* y, int columns, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD;
    auto f = [](wide x, wide bias) { return (x += bias) * gelu_weight(x); };
    if (columns % PER_THREAD) {
        for (int end = min(n, i + PER_THREAD); i < end; ++i) y[i] = f(x[i], bias[i % columns]);
    } else if (i < n) {
        put(y, i, each_lane(f, as<wide>(some<PER_THREAD>(x, i)), some<PER_THREAD>(bias, i % columns)));
    }
}

// dy times the slope at x + bias.
struct BiasedSlope {
    const real *dy, *x;
    const wide* bias;
    int columns;

    template <int N>
    __device__ auto at(int column) const {
        return [dy = dy, x = x, own = some<N>(bias, column), first = column, columns = columns](int row) {
            auto f = [](wide dy, wide x, wide bias) { return dy * gelu_tanh_slope(x + bias); };
            int i = row * columns + first;
            return each_lane(f, as<wide>(some<N>(dy, i)), as<wide>(some<N>(x, i)), own);
        };
    }
};

// dx, and of each block the sums for dbias: see column_sums.cuh.
extern "C" __global__ void __launch_bounds__(32 * ROWS_AT_ONCE) bias_gelu_tanh_backward(
    const real* dy, const real* x, const wide* bias, real* dx, wide* parts, int columns, int rows) {
    BiasedSlope slope{dy, x, bias, columns};
    if (columns % PER_THREAD) make_rows<1>(dx, parts, columns, rows, slope);
    else make_rows<PER_THREAD>(dx, parts, columns, rows, slope);
}
