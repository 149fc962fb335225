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

// This thread's place among its `width` lanes, and those of the mask that exist, from the first of these on, by bits.
__device__ unsigned lane_of_thread(unsigned mask, int width, int& lane) {
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned left = blockDim.x * blockDim.y * blockDim.z - thread / 32 * 32;
    lane = thread % width;
    return (mask & (left < 32 ? (1u << left) - 1 : 0xffffffffu)) >> thread % 32 / width * width;
}

// Of y = __shfl_down_sync(mask, x, step): the d_y of the lane below, and my own where no lane is above.
template <class Sum>
__device__ Sum shuffle_down_adjoint(unsigned mask, Sum d, int step, int width = 32) {
    int lane;
    unsigned lanes = lane_of_thread(mask, width, lane);
    bool exists = lane >= step && lanes >> (lane - step) & 1;
    Sum other = __shfl_sync(mask, d, exists ? lane - step : lane, width);
    return (exists ? other : Sum(0)) + (lane + step >= width ? d : Sum(0));
}

// Of y = __shfl_up_sync(mask, x, step): the d_y of the lane above, and my own where no lane is below.
template <class Sum>
__device__ Sum shuffle_up_adjoint(unsigned mask, Sum d, int step, int width = 32) {
    int lane;
    unsigned lanes = lane_of_thread(mask, width, lane);
    int from = min(lane + step, width - 1);
    bool exists = lane + step < width && lanes >> from & 1;
    Sum other = __shfl_sync(mask, d, exists ? from : lane, width);
    return (exists ? other : Sum(0)) + (lane < step ? d : Sum(0));
}

// Of y = __shfl_sync(mask, x, source): the d_y of all lanes whose source I am.
template <class Sum>
__device__ Sum shuffle_idx_adjoint(unsigned mask, Sum d, int source, int width = 32) {
    int lane;
    unsigned lanes = lane_of_thread(mask, width, lane);
    Sum sum = 0;
    for (int k = 0; k < width; ++k) {  // by all lanes of the mask, as each waits for the others
        bool exists = lanes >> k & 1;
        Sum other = __shfl_sync(mask, d, exists ? k : lane, width);
        int read = __shfl_sync(mask, source, exists ? k : lane, width) & (width - 1);
        if (exists && read == lane) sum += other;
    }
    return sum;
}

// Of y = __shfl_xor_sync(mask, x, distance): the d_y of the same lane. Beyond its own group a lane reads in those ahead
// of it alone, and itself in place of one behind.
template <class Sum>
__device__ Sum shuffle_xor_adjoint(unsigned mask, Sum d, int distance, int width = 32) {
    Sum other = __shfl_xor_sync(mask, d, distance);
    if (distance < width) return other;
    int lane;
    lane_of_thread(mask, 32, lane);
    int own = lane / width, reader = (lane ^ distance) / width;
    return reader > own ? other + d : Sum(0);
}
