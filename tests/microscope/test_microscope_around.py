"""The surroundings of a watched kernel: its folder, other threads, too little memory."""

import ctypes
import mmap
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import minigrad as mg
from minigrad import check
from minigrad.devices import get
from minigrad.errors import KernelError
from minigrad.microscope import native, watching
from minigrad.simulator import Simulator
from minigrad.simulator.runtime import FaultReport, LaunchRequest, runtime


def test_python_and_the_runtime_mean_the_same_records():
    sizes = runtime().minigrad_sizes
    sizes.restype = ctypes.POINTER(ctypes.c_uint32)
    structures = (
        LaunchRequest,
        FaultReport,
        native.WatchRequest,
        native.WatchResult,
        native.ShadowedVariable,
        native.Finding,
    )
    here = [
        *map(ctypes.sizeof, structures),
        *(each.itemsize for each in (native.RECORD, native.CELL, native.ATOMIC_CELL)),
    ]
    assert sizes()[: len(here)] == here


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

def addresses():  # GiB of the process, most of them only reserved
    return int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 2**20

text = 'extern "C" __global__ void k(float* y) { y[0] = 1; }'
small, large = np.zeros(1, np.float32), np.zeros(2**26, np.float32)
mg.inspect(text, small, grid=1, block=1)
before = addresses()
resource.setrlimit(resource.RLIMIT_AS, (int((before + 17) * 2**30), -1))
mg.inspect(text, small, grid=1, block=1)  # its window and the free one take 16 GiB
try:
    mg.inspect(text, large, grid=1, block=1)  # its shadow cells would take 2.25 GiB more
except MemoryError:
    print("no memory,", end=" ")
print("all given back" if addresses() - before < 1 else addresses() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_watch_for_which_there_is_no_memory_gives_back_what_it_had():
    done = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, check=True)
    assert done.stdout == "no memory, all given back\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="MAP_FIXED_NOREPLACE is Linux's")
def test_an_index_far_from_shared_memory_leaves_alone_what_lies_there():
    """As unsigned, -1 is 2^32 - 1: 16 GiB after the array, where another page of the process may be."""
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


def test_a_million_accesses_outside_are_seen_at_once():
    """In a thousand pages after the array, each of which is made accessible once."""
    text = """extern "C" __global__ void far(const float* x, float* y, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i * n + threadIdx.x];
    y[threadIdx.x] = sum;
}"""
    x, y, start = np.ones(1024, np.float32), np.zeros(1024, np.float32), time.process_time()
    (problem,) = mg.inspect(text, x, y, 1000, grid=1, block=1000, blocks=0).problems
    assert problem.count == 1000 * 1000 - 1024 and time.process_time() - start < 1


def elsewhere(run) -> None:
    """Run a function on another thread, and wait for it."""
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_what_another_thread_launches_is_not_watched():
    """A slider draws on its own thread, while a cell runs."""
    x = mg.ones(4, device="sim")
    with watching() as report:
        elsewhere(lambda: mg.exp(x))
        assert not report.launches
        mg.log(x)
    assert [record.kernel for record in report.launches] == ["log_vectorized"]


def test_two_threads_watch_each_its_own():
    kernels = {}

    def look(name):
        with watching() as report:
            meet.wait()
            getattr(mg, name)(mg.ones(4, device="sim"))
            meet.wait()
        kernels[name] = [record.kernel for record in report.launches]

    meet = threading.Barrier(2)
    threads = [threading.Thread(target=look, args=(name,)) for name in ("exp", "log")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kernels == {"exp": ["exp_vectorized"], "log": ["log_vectorized"]}


@pytest.fixture
def surroundings(monkeypatch):
    """The timeout of `sim` and standard output, as every launch finds them."""
    found, launch = set(), Simulator.launch

    def noted(self, *args):
        found.add((get("sim").timeout, sys.stdout))
        launch(self, *args)

    monkeypatch.setattr(Simulator, "launch", noted)
    return found


def test_an_attempt_changes_nothing_for_other_threads(surroundings):
    before = get("sim").timeout
    right = mg.exp["forward"].text
    assert check.kernel(mg.exp, "forward", right).correct
    assert not check.kernel(mg.exp, "forward", right.replace("= exp(", "= 1 + exp(")).correct
    any_block_sum = mg.exercise("any_block_sum")
    assert any_block_sum.check(any_block_sum.solution()).correct
    assert surroundings == {(before, sys.stdout)}


def test_a_second_look_is_silent_and_leaves_standard_output_to_others(surroundings, capsys):
    text = """extern "C" __global__ void last(float* y, int* count) {
    y[blockIdx.x] = 1;
    __threadfence();
    if (atomicAdd(count, 1) == 1) y[2] = y[0] + y[1];
    printf("%d", blockIdx.x);
}"""
    assert mg.inspect(text, np.zeros(3, np.float32), np.zeros(1, np.int32), grid=2, block=1).ok
    assert surroundings == {(get("sim").timeout, sys.stdout)} and capsys.readouterr().out == "01"
