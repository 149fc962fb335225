"""NVRTC, which has no headers of C and C++, compiles the text that sim and nvcc compile."""

from contextlib import suppress

import pytest

import minigrad as mg
from minigrad.devices.cuda import compiler
from minigrad.devices.cuda.toolkit import find_nvcc, headers_without_nvcc

pytestmark = pytest.mark.filterwarnings("ignore:.*left out")

TEXT = """#include <stdint.h>
#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <nvtx3/nvToolsExt.h>
#if !defined(__linux__) && !defined(__APPLE__)
#error "an unknown system"
#endif
extern "C" {
#include <cuda_gl_interop.h>
}
template <class T> __device__ std::enable_if_t<std::is_floating_point<T>::value, T> least(std::true_type) {
    return std::numeric_limits<T>::max();
}
template <class T> struct Wide { using type = std::conditional_t<sizeof(T) == 4, double, T>; };
extern "C"__global__ void k(float* y, uint64_t n) {
    register std::size_t i = std::move(n);
    Wide<float>::type a = std::min(least<float>(std::bool_constant<true>()), 3.0f);
    y[threadIdx.x] = a + i;
}
"""


def has_nvrtc() -> bool:
    with suppress(ImportError, RuntimeError):
        from cuda.bindings import nvrtc

        return bool(nvrtc.nvrtcVersion())
    return False


def test_sim_takes_the_text():
    y = mg.zeros(4, device="sim")
    mg.kernel(TEXT, "k")(y, 2, grid=1, block=4)
    assert y.numpy().tolist() == [5, 5, 5, 5]


@pytest.mark.skipif(find_nvcc() is None, reason="there is no nvcc")
def test_nvcc_takes_the_text():
    assert b".text.k\0" in compiler.cubin(mg.kernel(TEXT, "k").source, {}, "sm_90")


@pytest.mark.skipif(not has_nvrtc() or not headers_without_nvcc(), reason="there is no NVRTC, or no headers of CUDA")
def test_nvrtc_takes_the_text():
    source = mg.kernel(TEXT, "k").source
    image = compiler._nvrtc(source, ["-arch=sm_90", "-std=c++17"])
    assert b".text.k\0" in image


def test_headers_are_taken_where_their_names_are_used():
    """One takes NVRTC seconds."""
    assert "cuda/std/" not in compiler._std("#include <limits>\n#include <utility>\nstd::min(a, std::sqrt(b))")
    taken = compiler._std("using namespace std;\n#include <complex>\nstd :: numeric_limits<int>::max()")
    assert [name for name in compiler.STD_HEADERS if f"<cuda/std/{name}>\n#endif" in taken] == ["limits", "complex"]
    assert "cuda/std/" not in compiler._std("using namespace std;\nstruct complex {}; void swap(); int get();")
