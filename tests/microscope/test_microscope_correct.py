"""The microscope reports nothing in correct uses of warps, barriers and fences, and a race where one is missing."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

CORRECT = {
    "a warp of its own": """
        __shared__ float s[64];
        int i = threadIdx.x, warp = i / 32 * 32;
        for (int round = 0; round < 3; ++round) {
            s[i] = x[i] + round;
            __syncwarp();
            y[64 * blockIdx.x + i] = s[warp + (i + 1) % 32];
            __syncwarp();
        }""",
    "part of a warp": """
        __shared__ float s[64];
        int i = threadIdx.x;
        if (i % 32 < 16) {
            s[i] = x[i];
            __syncwarp(0x0000ffff);
            y[64 * blockIdx.x + i] = s[i ^ 1];
        }""",
    "a sum by shuffles and atomics": """
        float v = x[threadIdx.x];
        for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);
        if (threadIdx.x % 32 == 0) atomicAdd(&y[0], v);""",
    "votes": """
        unsigned odd = __ballot_sync(0xffffffff, threadIdx.x % 2);
        if (__any_sync(0xffffffff, odd) && __syncthreads_count(1) == blockDim.x) y[64 * blockIdx.x + threadIdx.x] = odd;""",
    "a histogram": """
        __shared__ int s[8];
        if (threadIdx.x < 8) s[threadIdx.x] = 0;
        __syncthreads();
        atomicAdd(&s[threadIdx.x % 8], 1);
        __syncthreads();
        if (threadIdx.x < 8) atomicAdd(&y[threadIdx.x], (float)s[threadIdx.x]);""",
    "the last block adds up": """
        __shared__ bool last;
        if (threadIdx.x == 0) y[blockIdx.x] = x[blockIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            last = atomicAdd(&y[100], 1.0f) == gridDim.x - 1;
        }
        __syncthreads();
        if (last && threadIdx.x == 0) y[101] = y[0] + y[1], y[100] = 0;""",
    "a lock": """
        while (atomicCAS((int*)&y[100], 0, 1) != 0) {}
        __threadfence();
        y[0] += x[threadIdx.x];
        __threadfence();
        atomicExch((int*)&y[100], 0);""",
    "a constant, a local array and a struct": """
        struct Pair { float a, b; };
        float local[4] = {1, 2, 3, 4};
        Pair p = {x[threadIdx.x], local[threadIdx.x % 4]};
        y[64 * blockIdx.x + threadIdx.x] = p.a + p.b;""",
    "parts of one element": """
        struct Pair { short a, b; };
        __shared__ Pair s[32];
        __shared__ float2 two[32];
        int i = threadIdx.x;
        (i % 2 ? s[i / 2].a : s[i / 2].b) = i;
        ((float*)two)[i] = i;
        __syncthreads();
        ((char*)&y[64 * blockIdx.x])[i] = s[i / 2].a + two[i / 2].y;""",
    "a struct with a gap in it": """
        struct Best { double value; int index; };
        __shared__ Best s[64];
        s[threadIdx.x].value = x[threadIdx.x];
        s[threadIdx.x].index = threadIdx.x;
        __syncthreads();
        Best other = s[63 - threadIdx.x];
        y[64 * blockIdx.x + threadIdx.x] = other.value + other.index;""",
    "a flag": """
        volatile float* flag = &y[100];
        if (threadIdx.x == 0 && blockIdx.x == 0) {
            y[0] = x[0];
            __threadfence();
            *flag = 1;
        }
        if (threadIdx.x == 0 && blockIdx.x == 1) {
            while (*flag == 0) {}
            __threadfence();
            y[1] = y[0];
        }""",
    "variables of the device": """
        atomicAdd(&total, 1);
        y[64 * blockIdx.x + threadIdx.x] = table[blockIdx.x][threadIdx.x % 3];""",
    "a flag that atomics change": """
        __shared__ int flag;
        if (threadIdx.x == 0) flag = 0;
        __syncthreads();
        if (threadIdx.x == 40) {
            y[blockIdx.x] = x[0];
            __threadfence_block();
            atomicExch(&flag, 1);
        }
        if (threadIdx.x == 41) {
            while (*(volatile int*)&flag == 0) __nanosleep(1);
            y[64 + blockIdx.x] = y[blockIdx.x];
        }""",
}


SOME = re.compile(r"fence|__syncwarp\(0")  # orders some threads: the check of its whole file remembers more
HEAD = "__device__ int total, table[2][3] = {{1, 2, 3}, {4, 5, 6}};\n__device__ const double half = 0.5;\n"
WRONG = [
    ("the last block adds up", "__threadfence();"), ("a lock", "__threadfence();"),
    ("a warp of its own", "__syncwarp();"), ("part of a warp", "__syncwarp(0x0000ffff);"),
    ("a histogram", "__syncthreads();"), ("parts of one element", "__syncthreads();"), ("a flag", "__threadfence();"),
    ("a flag that atomics change", "__threadfence_block();"),
]  # fmt: skip


def kernels(bodies: dict[str, str]) -> dict[str, Kernel]:
    """The kernels by name, in two files: each is compiled once."""
    made = {}
    for some in (True, False):
        mine = [name for name, body in bodies.items() if bool(SOME.search(body)) == some]
        text = "".join(
            f'extern "C" __global__ void k{i}(const float* x, float* y) {{{bodies[name]}\n}}\n'
            for i, name in enumerate(mine)
        )
        made |= {name: Kernel(Source(HEAD + text, "uses.cu"), f"k{i}") for i, name in enumerate(mine)}
    return made


def inspect(kernel: Kernel) -> list:
    return mg.inspect(kernel, np.ones(64, np.float32), np.zeros(128, np.float32), grid=2, block=64).problems


RIGHT = kernels(CORRECT)


@pytest.mark.parametrize("use", CORRECT)
def test_correct_uses_have_no_problem(use):
    assert inspect(RIGHT[use]) == []


BROKEN = kernels({use: CORRECT[use].replace(without, "") for use, without in WRONG})


@pytest.mark.parametrize("use, without", WRONG)
def test_the_same_without_what_orders_them_is_a_race(use, without):
    assert without in CORRECT[use]
    assert {problem.kind for problem in inspect(BROKEN[use])} == {"race"}
