// Grid-stride loop. bits = the largest |got - wanted|, as the bits of a float: for floats of at least 0 they are in the
// order of integers, so that atomicMax applies. NaN counts as an infinite distance.
extern "C" __global__ void furthest(const float* got, const float* wanted, int* bits, long long n) {
    float largest = 0;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        float off = fabsf(got[i] - wanted[i]);
        largest = off <= largest ? largest : off == off ? off : 1.0f / 0.0f;
    }
    atomicMax(bits, __float_as_int(largest));
}
