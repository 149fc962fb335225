"""NVRTC, which has no headers of C and C++, compiles the text that sim and nvcc compile."""

from contextlib import suppress
from pathlib import Path

import pytest

import minigrad as mg
from minigrad.devices.cuda import compiler
from minigrad.devices.cuda.toolkit import find_nvcc, headers_without_nvcc
from minigrad.devices.unit import units_of_headers

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
    text = TEXT.replace("#include <cuda_gl_interop.h>\n", "")  # it includes GL's own header, which few machines have
    assert b".text.k\0" in compiler.cubin(mg.kernel(text, "k").source, {}, "sm_90")


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


def test_statements_that_a_body_includes_are_no_host_code(tmp_path):
    (tmp_path / "step.inl").write_text("v = v * 1.5f + x[t];\n")
    (tmp_path / "host.h").write_text('void host() { printf(""); }\n__device__ float two() { return 2; }\n')
    path = tmp_path / "k.cu"
    path.write_text(
        '#include "host.h"\n__global__ void k(const float* x, float* y) {\n'
        'int t = threadIdx.x; float v = two();\n#include "step.inl"\n#include "step.inl"\ny[t] = v; }\n'
    )
    texts = {Path(name).name: text for name, text in units_of_headers(mg.kernel(path).source).items()}
    assert "v = v * 1.5f + x[t];" in texts["step.inl"]
    assert "two" in texts["host.h"] and "printf" not in texts["host.h"]
