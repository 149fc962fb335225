"""What is around a kernel that is watched: its folder, other threads, memory that the system has not."""

import ctypes
import mmap
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import KernelError

OVER = """extern "C" __global__ void over(float* y) {
    y[threadIdx.x] = 1;  // runs over
}"""


def test_a_folder_and_a_file_with_a_space_in_their_names_have_lines(tmp_path, monkeypatch):
    file = tmp_path / "my kernels" / "run over.cu"
    file.parent.mkdir()
    file.write_text(OVER)
    monkeypatch.chdir(file.parent)
    record = mg.inspect(file, np.zeros(1000, np.float32), grid=1, block=1024)
    (problem,) = record.problems
    assert (problem.file, problem.line, record.lines[0].line) == ("run over.cu", 2, 2)
    with pytest.raises(KernelError, match=r"run over.cu\(2\)") as caught:
        mg.kernel(file, "over")(mg.zeros(1024 - 4, device="sim"), grid=1, block=1024)
    assert caught.value.line == 2


NO_MEMORY = """
import re, resource
import numpy as np
import minigrad as mg

def addresses():  # GiB that the process has, of which most are reserved alone
    return int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 2**20

text = 'extern "C" __global__ void k(float* y) { y[0] = 1; }'
small, large = np.zeros(1, np.float32), np.zeros(2**28, np.float32)
mg.inspect(text, small, grid=1, block=1)
before = addresses()
resource.setrlimit(resource.RLIMIT_AS, (int((before + 12) * 2**30), -1))
try:
    mg.inspect(text, large, grid=1, block=1)
except MemoryError:
    print("no memory,", end=" ")
print(abs(round(addresses() - before, 1)), "GiB more")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_watch_for_which_there_is_no_memory_gives_back_what_it_had():
    done = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, check=True)
    assert done.stdout == "no memory, 0.0 GiB more\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="MAP_FIXED_NOREPLACE is Linux's")
def test_an_index_far_from_shared_memory_leaves_alone_what_lies_there():
    """As unsigned, -1 is 2^32 - 1: 16 GiB behind the array, where another page of the process may be."""
    where = np.zeros(1, np.int64)
    text = """extern "C" __global__ void k(long long* where, int over) {
    extern __shared__ float s[];
    where[0] = (long long)s;
    if (over) s[threadIdx.x - 1] = 1;
}"""
    mg.inspect(text, where, 0, grid=1, block=1, shared=4096)
    page, libc = int(where[0]) + 2**34 - mmap.PAGESIZE, ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 4]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100000  # MAP_FIXED_NOREPLACE
    if libc.mmap(page, mmap.PAGESIZE, mmap.PROT_READ, flags, -1, 0) != page:
        pytest.skip("something else lies there already")
    record = mg.inspect(text, where, 1, grid=1, block=1, shared=4096)
    assert [(p.kind, p.variable, p.element) for p in record.problems] == [("out-of-bounds", "s", -1)]
    assert ctypes.string_at(page, mmap.PAGESIZE) == bytes(mmap.PAGESIZE)
    libc.munmap(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE))
