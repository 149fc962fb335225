#include "recurrent/registers.cuh"

// The sequence by CUDA cores, in the precision of `real`.
extern "C" __global__ void __launch_bounds__(THREADS) recurrent_persistent(
    const real* projected, const real* w_ih, const real* b_ih, const real* w_hh, const real* b_hh, const int* lengths,
    real* h, real* c, real* y, unsigned* moved, unsigned* arrived, int steps, int backward, int batch, int hidden) {
    extern __shared__ real shared[];
    run_sequence<Registers>(
        through_l2<Registers, real>(moved, arrived), shared, projected, w_ih, b_ih, w_hh, b_hh, lengths, h, c, y, steps,
        backward, batch, hidden);
}
