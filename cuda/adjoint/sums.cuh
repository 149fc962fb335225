// *sum += part, for a whole warp by one atomic where all its threads add to the same place.
template <class Sum, class Part>
__device__ void warp_add(Sum* sum, Part part) {
    unsigned active = __activemask();
    unsigned long long place = (unsigned long long)sum;
    Sum value = part;
    // one place, and the first lanes of the warp: all of them, or those of the last warp of a block
    if (active & (active + 1) || !__all_sync(active, __shfl_sync(active, place, 0) == place)) {
        atomicAdd(sum, value);
        return;
    }
    int lanes = __popc(active), lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    for (int step = 16; step > 0; step /= 2) {
        Sum other = __shfl_sync(active, value, min(lane + step, lanes - 1));
        value += lane + step < lanes ? other : Sum(0);
    }
    if (lane == 0) atomicAdd(sum, value);
}

// The sum of part over a warp, whose threads then take turns to add it: this is thread `turn` of `turns`.
template <class Sum>
__device__ Sum warp_total(Sum part, int& turn, int& turns) {
    unsigned active = __activemask();
    turn = 0;
    turns = 1;
    if (active & (active + 1)) return part;  // not just the first lanes of the warp: each thread for itself
    turns = __popc(active);
    turn = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    Sum value = part;
    if (turns == 32) {
        for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(active, value, step);
        return value;
    }
    for (int step = 16; step > 0; step /= 2) {
        Sum other = __shfl_sync(active, value, min(turn + step, turns - 1));
        value += turn + step < turns ? other : Sum(0);
    }
    return __shfl_sync(active, value, 0);
}

// *sum += part, for a whole block by one atomic. All its threads come by.
template <class Sum, class Part>
__device__ void block_add(Sum* sum, Part part) {
    __shared__ Sum total;
    bool first = threadIdx.x + threadIdx.y + threadIdx.z == 0;
    if (first) total = 0;
    __syncthreads();
    warp_add(&total, part);
    __syncthreads();
    if (first) atomicAdd(sum, total);
}
