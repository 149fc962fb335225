"""Atomics that name their order and scope, on `sim` and under the microscope."""

import numpy as np

import minigrad as mg

TEXT = """
__global__ void updates(unsigned* n, float* y, unsigned long long* big, int* swapped) {
    __nv_atomic_fetch_add(n, 2, __NV_ATOMIC_RELAXED);
    __nv_atomic_max(n + 1, threadIdx.x, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_or(n + 2, 1u << threadIdx.x, __NV_ATOMIC_ACQ_REL);
    __nv_atomic_add(y, 0.5f, __NV_ATOMIC_SEQ_CST);
    unsigned long long old = __nv_atomic_load_n(big, __NV_ATOMIC_RELAXED);
    while (!__nv_atomic_compare_exchange_n(big, &old, old + 3, false, __NV_ATOMIC_RELAXED, __NV_ATOMIC_RELAXED)) {}
    if (__nv_atomic_exchange_n(swapped, 5, __NV_ATOMIC_RELAXED)) __nv_atomic_fetch_sub(swapped + 1, 1, __NV_ATOMIC_RELAXED);
}
__global__ void wait(int* flag, float* y) {
    if (blockIdx.x == 0) {
        y[0] = 4;
        __nv_atomic_store_n(flag, 1, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
    } else {
        while (!__nv_atomic_load_n(flag, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE)) {}
        y[1] = y[0];
    }
}
"""


def test_updates_reads_and_swaps():
    arrays = [np.zeros(3, np.uint32), np.zeros(1, np.float32), np.zeros(1, np.uint64), np.zeros(2, np.int32)]
    kernel, on_sim = mg.kernel(TEXT, "updates"), [mg.tensor(each, device="sim") for each in arrays]
    kernel(*on_sim, grid=2, block=32)
    wanted = [[128, 31, 2**32 - 1], [32], [192], [5, -63]]
    assert [each.numpy().tolist() for each in on_sim] == wanted
    assert mg.inspect(kernel, *arrays, grid=2, block=32).problems == []
    assert [each.tolist() for each in arrays] == wanted


def test_release_and_acquire_order_what_is_around_them():
    flag, y = np.zeros(1, np.int32), np.zeros(2, np.float32)
    assert mg.inspect(mg.kernel(TEXT, "wait", cooperative=True), flag, y, grid=2, block=1).problems == []
    assert y.tolist() == [4, 4]
    for order in ("RELEASE", "ACQUIRE"):
        kernel = mg.kernel(TEXT.replace(order, "RELAXED"), "wait", cooperative=True)
        record = mg.inspect(kernel, flag * 0, y * 0, grid=2, block=1)
        assert [(each.kind, each.variable) for each in record.problems] == [("race", "y")]
