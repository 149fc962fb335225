"""Faults on the device `sim` have a name, a place and a way out, and the next launch works."""

import re
import resource
import signal
import threading
import time

import numpy as np
import pytest
from sim_kernels import error_of, faults, filled, line_of, python

from minigrad.devices import get
from minigrad.errors import KernelError, LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.source_kernel import kernel
from minigrad.source import Source

FEW_ADDRESSES = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def test_out_of_bounds_names_buffer_size_distance_thread_and_line():
    error = error_of("past_the_end", filled(1000), filled(1000), 1000, grid=4, block=256)
    assert (error.kind, error.buffer, error.block, error.thread) == ("out-of-bounds", "x", (3, 0, 0), (232, 0, 0))
    assert error.line == line_of("past_the_end")
    for part in (
        "x[1000] is past the end of x (1000 elements)",
        f"cuda/faults.cu({error.line})",
        "if (i < n)",
    ):
        assert part in str(error)


@pytest.mark.parametrize("size", [1, 3, 4, 1023, 1024, 1025, 5000])
def test_no_read_goes_past_the_end_unseen(size):
    with np.errstate(invalid="ignore"):
        y, n = filled(size), -(-size // 4) * 4 + 1  # the next multiple of 16 bytes is the furthest that may read as NaN
    assert error_of("past_the_end", filled(size), y, size, block=1, grid=n).buffer == "x"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 31, 1023, 1025])
def test_what_is_read_between_an_array_and_the_unmapped_page_is_nan(size, dtype):
    slack = -size * np.dtype(dtype).itemsize % 16 // np.dtype(dtype).itemsize
    x, y = filled(size, dtype), filled(32, dtype)
    faults("behind", x, y, size, block=slack)
    assert np.isnan(y.numpy()).tolist() == [True] * slack + [False] * (32 - slack)
    error = error_of("behind", x, y, size, block=slack + 1)
    assert (error.kind, error.buffer, error.thread) == ("out-of-bounds", "x", (slack, 0, 0))


def test_before_the_start():
    error = error_of("before_the_start", filled(1000), filled(1000), 1000)
    assert (error.kind, error.buffer) == ("out-of-bounds", "x") and "x[-5000] is before the start" in str(error)


@pytest.mark.skipif(FEW_ADDRESSES, reason="few addresses")
@pytest.mark.parametrize("index", [-16_000_000, 16_000_000])
def test_an_index_that_is_millions_too_far(index):
    error = error_of("far_away", filled(1000), filled(1000), index)
    assert (error.kind, error.buffer, error.line) == ("out-of-bounds", "x", line_of("far_away"))
    assert f"x[{index}] is" in str(error)


@pytest.mark.parametrize("name, args", [("written_before", ()), ("written_after", (0,))])
def test_a_write_beside_a_buffer_is_seen_after_the_launch(name, args):
    y = filled(30)
    error = error_of(name, y, *args, block=31)
    assert (error.kind, error.buffer) == ("out-of-bounds", "y") and "wrote outside y (30 elements" in str(error)
    faults("fine", y, block=30)  # the canary was restored


def test_null_pointer():
    error = error_of("null_pointer", filled(4), None)
    assert (error.kind, error.buffer, error.thread, error.line) == (
        "null-pointer",
        "bias",
        (3, 0, 0),
        line_of("null_pointer"),
    )


@pytest.mark.parametrize("n", [0, 1, 6], ids=["a byte", "misaligned", "aligned"])
def test_a_pointer_that_is_no_address_is_no_null_pointer(n):
    error = error_of("nowhere", filled(4), n)
    assert (error.kind, error.thread, error.line) == ("illegal-access", (3, 0, 0), line_of("nowhere"))
    assert "which nothing may have set" in str(error)


def test_misaligned_vector():
    error = error_of("misaligned", filled(100), filled(100))
    assert (error.kind, error.buffer, error.thread, error.line) == ("misaligned", "x", (1, 0, 0), line_of("misaligned"))
    assert "x[5]" in str(error) and "must begin at a multiple of 16 bytes" in str(error)


@pytest.mark.parametrize("name", ["divided", "remainder_of_zero"])
def test_integer_division_by_zero(name):
    error = error_of(name, filled(32, np.int32), 7)
    assert (error.kind, error.thread, error.line) == ("division", (7, 0, 0), line_of(name))


@pytest.mark.parametrize(
    "name, words",
    [
        ("two_barriers", "20 wait at __syncthreads in line {0}, 12 wait at __syncthreads in line {1}"),
        ("barrier_and_shuffle", "20 wait at __syncthreads in line {0}, 12 wait at __shfl_sync in line {1}"),
        ("left_out", "lane 31 calls __shfl_sync with mask 0x7fffffff"),
    ],
)
def test_barriers_that_not_all_threads_reach(name, words):
    error, line = error_of(name, filled(32)), line_of(name)
    assert (error.kind, error.block, error.line) == ("barrier-divergence", (0, 0, 0), line)
    assert words.format(line, line + 1) in str(error)


@pytest.mark.parametrize("block", [20, 21, 32, 200])
def test_a_barrier_does_not_wait_for_threads_that_have_returned(block):
    y = filled(200)
    faults("returned_early", y, grid=2, block=block)
    assert y.numpy().tolist() == [7] * 20 + [0] * 180


def test_assert():
    error = error_of("asserted", 5)
    assert (error.kind, error.thread, error.line) == ("assert", (5, 0, 0), line_of("asserted"))
    assert "assert(threadIdx.x < n) failed" in str(error)


def test_past_the_end_of_shared_memory():
    error = error_of("shared_past_the_end", filled(1), 0, shared=96)
    assert (error.kind, error.thread, error.line) == ("out-of-bounds", (24, 0, 0), line_of("shared_past_the_end"))
    assert "shared memory (96 bytes)" in str(error)


@pytest.mark.skipif(FEW_ADDRESSES, reason="few addresses")
@pytest.mark.parametrize("index", [-16_000_000, 16_000_000])
def test_an_index_of_shared_memory_that_is_millions_too_far(index):
    error = error_of("shared_past_the_end", filled(1), index, shared=96)
    assert (error.kind, error.thread, error.line) == ("out-of-bounds", (0, 0, 0), line_of("shared_past_the_end"))
    assert "shared memory (96 bytes)" in str(error)


def test_too_much_local_memory():
    assert "stack" in str(error_of("deep", filled(1), 100, block=1))


@pytest.mark.parametrize("name, shared, number", [("greedy", 0, 65536), ("greedy_in_all", 9600, 40000)])
def test_too_much_shared_memory_is_refused(name, shared, number):
    y = filled(32, value=5)
    with pytest.raises(LaunchError, match=rf"{name}: static shared memory of {number} bytes.*a block may use 49152"):
        faults(name, y, shared=shared)
    assert (y.numpy() == 5).all()


@pytest.fixture
def impatient():
    sim = get("sim")
    before, sim.timeout = sim.timeout, 0.2
    yield
    sim.timeout = before


@pytest.mark.parametrize("name", ["forever", "spinning", "spinning_at_barriers", "spinning_at_a_lock"])
@pytest.mark.parametrize("grid", [1, 64])
def test_a_kernel_that_does_not_end_is_stopped(name, grid, impatient):
    error = error_of(name, filled(1, np.int32), grid=grid)
    waits = r"(; \d+ of 64 blocks run at once here, and these wait for memory to change)?"
    place = re.escape(f"block {error.block}, thread {error.thread}")
    assert error.kind == "timeout" and re.search(rf"after 0.2 s{waits}, {place}", str(error))
    if name == "forever":  # compilers disagree on the line of an empty loop
        assert (error.block, error.thread) == ((grid - 1, 0, 0), (5, 0, 0))
    else:
        assert error.line == line_of(name)


def test_blocks_that_wait_for_one_that_cannot_begin_are_told_so(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 1.0)
    blocks = get("sim").workers + 1
    error = error_of("waiting_for_the_grid", filled(1, np.int32), grid=blocks)
    assert (error.kind, error.line) == ("timeout", line_of("waiting_for_the_grid"))
    assert f"{blocks - 1} of {blocks} blocks run at once here" in str(error) and "cooperative" in str(error), error


def test_blocks_that_wait_in_turn_for_a_lock_are_not_stopped(monkeypatch):
    sim = get("sim")
    monkeypatch.setattr(sim, "timeout", 2.4)
    text = """extern "C" __global__ void count(int* lock, long long* turns, long long ns) {
        for (long long start = clock64(); clock64() - start < ns;) {
            while (atomicCAS(lock, 0, 1) != 0) {}
            turns[0] += 1;
            for (int i = 0; i < 2000; ++i) turns[1] = turns[1] * 3 + i;
            atomicExch(lock, 0);
        }
    }"""
    turns = filled(2, np.int64)
    kernel(text, "count")(filled(1, np.int32), turns, 600_000_000, grid=sim.workers + 1, block=1)
    assert turns.numpy()[0] > 1000


CHANGES = [  # type, an atomic that finds the value, the value, another value
    ("int", "atomicMax(f, 0)", 0, "1"),
    ("int", "atomicMin(f, 5)", 5, "1"),
    ("int", "atomicOr(f, 4)", 4, "6"),
    ("unsigned", "atomicInc(f, 0)", 0, "1"),
    ("float", "atomicAdd(f, 0.0f)", 0, "1.0f"),
]
WAITING = "".join(
    f"""extern "C" __global__ void wait{number}({T}* f, int* y) {{
        if (threadIdx.x == 0) {{ while ({look} == {value}) {{}} y[0] = 7; }}
        else if (threadIdx.x == 1) atomicExch(f, {change});
    }}
"""
    for number, (T, look, value, change) in enumerate(CHANGES)
)


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_thread_may_wait_by_an_atomic_that_changes_nothing(number, impatient):
    T, _, value, _ = CHANGES[number]
    dtype = {"int": np.int32, "unsigned": np.uint32, "float": np.float32}[T]
    y = filled(1, np.int32)
    Kernel(Source(WAITING, "wait.cu"), f"wait{number}")(filled(1, dtype, value), y, grid=1, block=64)
    assert y.numpy() == 7


@pytest.fixture
def interruptible():
    """Python's own handler of Ctrl-C: a shell starts background jobs with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_stops_a_kernel_and_its_handler_is_put_back(interruptible):
    before, main = signal.getsignal(signal.SIGINT), threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        faults("spinning", filled(1, np.int32), grid=64)
    assert time.monotonic() - start < 10 and signal.getsignal(signal.SIGINT) is before
    error_of("asserted", 5)


def test_other_handlers_are_put_back():
    script = "import faulthandler; faulthandler.enable()\nfrom test_simulator_faults import *\ntest_assert(); faulthandler._sigsegv()"
    done = python(script)
    assert done.returncode == -signal.SIGSEGV and "Segmentation fault" in done.stderr and "_sigsegv" not in done.stdout


def test_launches_from_several_threads():
    arrays, failures = [filled(32, value=n) for n in range(8)], []

    def work(y):
        try:
            for _ in range(50):
                faults("fine", y)
            with pytest.raises(KernelError):
                faults("asserted", 5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(y,)) for y in arrays]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and all((y.numpy() == 1).all() for y in arrays)
