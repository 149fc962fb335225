"""The cache of compiled images: each kernel and each compiler has its own, also where several build at once."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import minigrad as mg
from minigrad.devices.cuda import compiler
from minigrad.devices.cuda.toolkit import find_nvcc

pytestmark = pytest.mark.filterwarnings("ignore:.*left out")
KERNELS = """__global__ void first(float* y) { y[0] = 1; }
__global__ void second(float* y) { y[0] = 2; }
template <class T> __global__ void third(T* y) { y[0] = 3; }
"""


@pytest.mark.skipif(not find_nvcc(), reason="no nvcc")
def test_kernels_of_one_header_have_images_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "kernels.cuh").write_text(KERNELS)
    (tmp_path / "main.cu").write_text('#include "kernels.cuh"\nint main() {}\n')
    kernels = [mg.kernel(tmp_path / "main.cu", name) for name in ("first", "second", "third<float>", "third<double>")]

    def image(kernel):
        return compiler.cubin(kernel.source, kernel.defines, "sm_90")

    with ThreadPoolExecutor(4) as threads:
        images = [*threads.map(image, kernels * 2)]
    assert images[:4] == images[4:] and len({*images}) == 4
    for made, name in zip(images, ("first", "second", "third", "third"), strict=False):
        assert [word for word in ("first", "second", "third") if f".text.{word}".encode() in made] == [name]


def test_each_version_of_a_compiler_has_images_of_its_own(monkeypatch):
    monkeypatch.setattr(compiler, "find_nvcc", lambda: None)
    found = set()
    for version in ((0, 12, 9), (0, 13, 0)):
        bindings = SimpleNamespace(nvrtc=SimpleNamespace(nvrtcVersion=lambda version=version: version))
        monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
        found.add(compiler._version.__wrapped__())
    assert len(found) == 2
