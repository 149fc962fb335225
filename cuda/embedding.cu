#include "reduce.cuh"
#include "vector.cuh"

// A table of `words` rows of `width` numbers. An index that is no row of it gives NaN, and is never used to read or write.
__device__ inline bool known(long long word, int words) { return 0 <= word && word < words; }

// y = weight[indices]. thread -> one number.
extern "C" __global__ void embedding_forward(
    const long long* indices, const real* weight, real* y, int words, int width, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long word = indices[i / width];
    y[i] = known(word, words) ? weight[word * width + i % width] : real(NAN);
}

// The same for rows of a multiple of four numbers. thread -> four neighbors.
extern "C" __global__ void embedding_vectorized(
    const long long* indices, const real* weight, real* y, int words, int width, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * LANES;
    if (i >= n) return;
    long long word = indices[i / width];
    Four<wide> four = {NAN, NAN, NAN, NAN};
    if (known(word, words)) four = as<wide>(vec(weight + word * width + i % width));
    put(y, i, four);
}

// --- the gradient: for each row of the table the sum of dy where it was looked up ---
// atomicAdd(&dweight[...], dy[...]) would add the floats in any order, and be rounded to another sum in each run. So the
// rows of dy are sorted by their word, and those of one word by their number. Then the rows of a word are added up, one after the other.

// [count] counts = how often each word occurs, from zeros. Whole numbers have the same sum in any order. thread -> an index
extern "C" __global__ void embedding_backward_count(
    const long long* indices, unsigned* counts, int words, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && known(indices[row], words)) atomicAdd(&counts[indices[row]], 1);
}

// [starts] starts[word] = a place for the rows of this word, apart from those of all others. Words of a block follow each
// other; blocks come in any order, which changes no sum. thread -> a word; total begins as 0
extern "C" __global__ void embedding_backward_starts(const unsigned* counts, unsigned* starts, unsigned* total, int words) {
    __shared__ unsigned before[1024], first;
    int word = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned own = word < words ? counts[word] : 0;
    before[threadIdx.x] = own;
    // at each step a thread adds the sum that ends `step` threads to the left
    for (int step = 1; step < blockDim.x; step *= 2) {
        __syncthreads();
        unsigned left = threadIdx.x >= step ? before[threadIdx.x - step] : 0;
        __syncthreads();
        before[threadIdx.x] += left;
    }
    if (threadIdx.x == blockDim.x - 1) first = atomicAdd(total, before[threadIdx.x]);
    __syncthreads();
    if (word < words) starts[word] = first + before[threadIdx.x] - own;
}

// [place] Each row into a place of its word, in any order. `taken` counts them, from zeros. thread -> a row
extern "C" __global__ void embedding_backward_place(
    const long long* indices, const unsigned* starts, unsigned* taken, unsigned* placed, int words, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || !known(indices[row], words)) return;
    placed[starts[indices[row]] + atomicAdd(&taken[indices[row]], 1)] = row;
}

// [sort] A row comes after as many rows of its word as have smaller numbers. thread -> a row
extern "C" __global__ void embedding_backward_sort(
    const long long* indices, const unsigned* starts, const unsigned* counts, const unsigned* placed, unsigned* sorted,
    int words, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || !known(indices[row], words)) return;
    unsigned start = starts[indices[row]], count = counts[indices[row]], smaller = 0;
#pragma unroll 8
    for (unsigned i = 0; i < count; ++i) smaller += placed[start + i] < row;
    sorted[start + smaller] = row;
}

// [sum] dweight = the sum of the rows of dy of each word, 0 without any. block -> BLOCK columns of a word
extern "C" __global__ void embedding_backward(
    const real* dy, const unsigned* starts, const unsigned* counts, const unsigned* sorted, real* dweight, int width) {
    int column = blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const unsigned* rows = sorted + starts[blockIdx.x];
    wide sum = strided_reduce(0, 1, counts[blockIdx.x], 0, [&](int i) { return dy[rows[i] * width + column]; }, Add());
    dweight[blockIdx.x * width + column] = sum;
}

// The same for rows of a multiple of four numbers. thread -> four neighbors of a word
extern "C" __global__ void embedding_vectorized_backward(
    const real* dy, const unsigned* starts, const unsigned* counts, const unsigned* sorted, real* dweight, int width, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * LANES, word = i / width, column = i % width;
    if (i >= n) return;
    const unsigned *rows = sorted + starts[word], *end = rows + counts[word];
    Four<wide> sum = {};
#pragma unroll 4
    for (; rows < end; ++rows) {
        sum = each_lane(Add(), sum, as<wide>(vec(dy + *rows * width + column)));
    }
    put(dweight, i, sum);
}
