"""Autotuning: the occupancy is NVIDIA's, the search finds the fastest, a choice is cached and applies automatically."""

import ctypes
import dataclasses
import json
import subprocess

import numpy as np
import pytest
from bench_examples import H200

import minigrad as mg
from minigrad import bench
from minigrad.devices import get
from minigrad.devices.cuda import compiler as nvcc
from minigrad.devices.cuda.chip import Chip
from minigrad.devices.cuda.toolkit import find_headers, find_nvcc
from minigrad.devices.host_compiler import find_compiler
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench import record as dated
from minigrad.lab.bench.sweeps import default, launch_key, settings
from minigrad.lab.bench.work import work_of
from minigrad.lab.bench.workloads import suite
from minigrad.lab.tune import choices, search
from minigrad.lab.tune.occupancy import Occupancy, heaviest, key, occupancy
from minigrad.lab.tune.regret import Regrets
from minigrad.source import Source

T4 = Chip("Tesla T4", (7, 5), 40, 1.59e9, 3.2e11, 4194304, 65536, 65536, 0, 1024, 16)


# --- occupancy ---


def test_each_resource_can_be_the_limit():
    def limits(threads, registers, shared, chip=H200):
        found = Occupancy("k", 1, threads, registers, shared, chip)
        return found.blocks, found.limiters

    assert limits(256, 16, 0) == (8, ("warps",))
    assert limits(32, 16, 0) == (32, ("blocks",))
    assert limits(256, 64, 0) == (4, ("registers",))
    assert limits(256, 33, 0) == (6, ("registers",)), "33 registers take the room of 40"
    assert limits(64, 16, 33000) == (6, ("shared memory",))
    assert limits(1024, 32, 0) == (2, ("warps", "registers"))
    assert limits(1024, 65, 0) == (0, ("registers",)), "not one block fits, and the launch is refused"
    assert "waves          none: not one block fits" in repr(Occupancy("k", 9, 1024, 65, 0, H200))
    assert limits(256, 16, 0, T4) == (4, ("warps",))


@pytest.mark.parametrize("n", [4095, 4096])
def test_the_heaviest_launch_is_none_that_copies(n):
    work = work_of("matmul", [(n, n), (n, n)])
    launches = work.dry().launches
    assert len(launches) > 1 and heaviest(launches, work.chosen).kernel == "matmul_packed"
    assert heaviest(launches[::-1], work.chosen).kernel == "matmul_packed"


def test_waves_and_their_tail():
    full = Occupancy("k", 132 * 8 * 3, 256, 16, 0, H200)
    assert (full.waves, full.tail, full.share) == (3.0, 1.0, 1.0)
    part = Occupancy("k", 132 * 8 + 132, 256, 16, 0, H200)
    assert (part.waves, part.tail) == (1.125, 0.125)
    said = repr(part)
    assert "warps          64 of a multiprocessor / 8 of a block = 8 blocks: the limit" in said
    assert "1188 blocks / (132 multiprocessors x 8) = 1.12 waves; the last one is 12 % full" in said
    assert Occupancy("k", 0, 256, 16, 0, H200).tail == 0


CALCULATOR = """
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
    cudaOccDeviceProp chip;
    cudaOccDeviceState state;
    cudaOccFuncAttributes kernel;
    cudaOccResult result;
    int major, minor, sms, warps, registers, shared, reserved, threads, regs, bytes;
    while (scanf("%d %d %d %d %d %d %d %d %d %d", &major, &minor, &sms, &warps, &registers, &shared, &reserved,
                 &threads, &regs, &bytes) == 10) {
        chip.computeMajor = major; chip.computeMinor = minor; chip.maxThreadsPerBlock = 1024; chip.warpSize = 32;
        chip.maxThreadsPerMultiprocessor = warps * 32; chip.regsPerBlock = chip.regsPerMultiprocessor = registers;
        chip.sharedMemPerMultiprocessor = shared; chip.sharedMemPerBlock = 48 * 1024; chip.numSms = sms;
        chip.sharedMemPerBlockOptin = shared - reserved; chip.reservedSharedMemPerBlock = reserved;
        state.carveoutConfig = 100;
        kernel.maxThreadsPerBlock = 1024; kernel.numRegs = regs; kernel.sharedSizeBytes = bytes;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF; kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = 0; kernel.numBlockBarriers = 1;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &chip, &kernel, &state, threads, 0)) return 1;
        printf("%d\\n", result.activeBlocksPerMultiprocessor);
    }
}
"""


@pytest.mark.skipif(find_nvcc() is None, reason="no CUDA toolkit on this machine")
def test_the_arithmetic_is_that_of_nvidias_calculator(tmp_path):
    (tmp_path / "c.cpp").write_text(CALCULATOR)
    command = [*find_compiler().command[:1], "-w", "-std=c++17", f"-I{find_headers(find_nvcc())}", "c.cpp", "-o", "c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    asked = [
        Occupancy("k", 1, threads, registers, shared, chip)
        for chip in (H200, T4)
        for threads in (32, 48, 64, 96, 128, 160, 256, 384, 512, 768, 1024)
        for registers in (8, 16, 24, 32, 33, 40, 47, 64, 80, 96, 128, 168, 200, 255)
        for shared in (0, 4, 1000, 4096, 8448, 16384, 33000, 49152)
    ]
    lines = [
        f"{c.compute[0]} {c.compute[1]} {c.sms} {c.warps} {c.registers} {c.shared} {c.reserved} "
        f"{o.threads} {o.registers} {o.shared}"
        for o in asked
        for c in [o.chip]
    ]
    done = subprocess.run([tmp_path / "c"], input="\n".join(lines), capture_output=True, text=True, check=True)
    theirs = [int(line) for line in done.stdout.split()]
    # NVIDIA's calculator knows the T4's 16 blocks, the chip here has them from the driver.
    assert theirs == [found.blocks for found in asked]


# --- the search ---


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A machine without a GPU, and a record of one."""
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    monkeypatch.setattr(search, "why_not", lambda name: "no GPU")
    made = bench.Record("NVIDIA H200", "2026-01-02", "minigrad bench", {}, H200, 4e12)
    seconds = {"BLOCK=32": 4e-4, "BLOCK=256": 1e-4, "BLOCK=512": 1.01e-4}
    made.sweeps["relu forward of 1000"] = {name: bench.Timing(s, s, s, 20) for name, s in seconds.items()}
    made.choices["relu forward of 1000"] = {"search": "BLOCK=512", "default": "BLOCK=256"}
    made.resources["relu_forward"] = (16, 0, 0)
    made.save()
    return made


def test_without_a_gpu_the_choice_is_the_recorded_one(recorded):
    tuned = mg.tune(mg.relu, (1000,), variant="forward")
    assert tuned.choice == {"BLOCK": 512}
    forward, backward = repr(tuned).splitlines()
    assert forward == "relu forward of 1000: BLOCK=512, 101.0 us (recorded on NVIDIA H200, 2026-01-02, 6 settings)"
    assert backward == "relu forward backward of 1000: BLOCK=256 (not timed: the op's own values, 6 settings)"
    said = tuned.explain()
    assert "relu_forward: blocks of 512 threads on NVIDIA H200" in said and ": the limit" in said
    assert "Its registers are not recorded" in said


def test_the_tuned_op_runs_with_the_choice(recorded):
    op = mg.tune(mg.relu, (1000,), variant="forward").op
    assert op["forward"].values == {"BLOCK": 512} and op["backward"].values == {"BLOCK": 256}
    assert mg.relu["forward"].values == {"BLOCK": 256}, "the op itself stays"
    assert op(mg.tensor([-1.0, 2.0], device="sim")).numpy().tolist() == [0, 2]


def test_what_cannot_be_tuned(recorded):
    with pytest.raises(ValueError, match="reshape launches no kernel"):
        mg.tune(mg.reshape, (4,), shape=(2, 2))
    with pytest.raises(TypeError, match=r"an op, e\.g\. mg\.relu; got"):
        mg.tune("rely", (4,))


def test_the_regret_is_the_time_lost(recorded):
    (row,) = mg.tune.regret().rows
    assert (row.best, row.search, row.default) == ("BLOCK=256", "BLOCK=512", "BLOCK=256")
    assert row.of_search == pytest.approx(0.01) and row.of_default == 0
    assert mg.tune.regret().largest(1).rows == (row,) and not mg.tune.regret().largest(0).rows
    assert mg.tune.regret().worst == row.of_search and "1.0 %" in repr(mg.tune.regret())


def test_the_regret_is_drawn_with_its_numbers(recorded):
    picture = mg.show.regret()
    assert picture.title == "Of 1 case: the search loses at most 1.0 %, the values in the source 0.0 %"
    assert picture.numbers.split()[-5:] == ["1.0", "%", "0.0", "%", "BLOCK=256"]
    assert picture.parts[0].png().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="nothing was swept"):
        mg.show.regret(dataclasses.replace(bench.newest(), sweeps={}))


@pytest.mark.parametrize("path", sorted(dated.FOLDERS[0].glob("*.json")), ids=lambda path: path.stem)
def test_recorded_choices_are_within_5_percent_of_the_best(path):
    record = bench.load(path)
    late = {row.title: row.of_search for row in mg.tune.regret(record).rows}
    assert not {title: share for title, share in late.items() if share > 0.05}


# --- kept, and applied by itself ---


def test_choices_are_kept_by_device_kernel_and_shape_class(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    work = work_of(mg.relu, [(1000,)], variant="forward")
    setting = settings(work)[0]
    assert choices.find("Some GPU", work) is None
    choices.save("Some GPU", work, setting.label, choices.plans(work, setting.op))
    assert choices.find("Some GPU", work) == "BLOCK=32"
    assert choices.find("Some GPU", work_of(mg.relu, [(513,)], variant="forward")) == "BLOCK=32", (
        "513 to 1024 are one class"
    )
    assert choices.find("Some GPU", work_of(mg.relu, [(512,)], variant="forward")) is None
    assert choices.find("Some GPU", work_of(mg.relu, [(1000,)], "backward", "forward")) is None
    assert choices.find("Other GPU", work) is None
    (entry,) = json.loads((tmp_path / "choices-some-gpu.json").read_text()).values()
    assert entry == {"op": "relu", "choice": "BLOCK=32", "plans": [["forward", [1000], {"BLOCK": 32}]]}


@pytest.mark.soak
def test_every_setting_of_the_set_is_a_choice_of_the_op_and_one_is_its_own():
    for work in suite():
        found = settings(work)
        assert default(work) in [s.values for s in found], work.title
        for setting in found:
            for role, _, values in choices.plans(work, setting.op):
                assert work.op.kernels[role].using(**values).values == values


@pytest.fixture
def gpu_with_choices(recorded, tmp_path, monkeypatch):
    """A machine with the record's GPU, as far as `auto` asks."""
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choices, "why_not", lambda name: "")
    monkeypatch.setattr(choices, "get", lambda name: type("GPU", (), {"label": "NVIDIA H200"}))
    monkeypatch.setattr(choices, "suite", lambda: [work_of(mg.relu, [(1000,)], variant="forward")])
    yield
    mg.tune.auto(False)


def test_choices_apply_by_themselves(gpu_with_choices):
    kernel = mg.relu["forward"]
    assert kernel.launch(2000).values == {"BLOCK": 256}
    assert mg.tune.auto() == 1
    assert kernel.launch(2000).values == {"BLOCK": 512}, "the nearest size that is known"
    assert kernel.launch(2000) is kernel.launch(2000), "worked out once for each size"
    assert kernel.launch(2000, BLOCK=64).values == {"BLOCK": 64}, "what is asked for stays"
    assert mg.relu.using(BLOCK=64)["forward"].launch(2000).values == {"BLOCK": 64}
    work = work_of(mg.relu, [(4,)], variant="forward")
    choices.save("NVIDIA H200", work, "BLOCK=32", choices.plans(work, mg.relu.using("forward", BLOCK=32)))
    assert mg.tune.auto() == 2 and kernel.launch(5).values == {"BLOCK": 32}
    assert kernel.launch(900).values == {"BLOCK": 512}
    assert mg.tune.auto(False) == 0 and kernel.launch(2000).values == {"BLOCK": 256}


@pytest.mark.parametrize(("name", "shape", "axis"), [("sum", (10**6,), None), ("max", (400, 300), 0)])
def test_choices_apply_to_reductions(gpu_with_choices, name, shape, axis):
    op = mg.OPS[name]
    work = work_of(op, [shape], axis=axis)
    chosen = next(s for s in settings(work) if launch_key(s.dry) != launch_key(work.dry()) and s.values["CHUNK"] == 100)
    plans = choices.plans(work, chosen.op)
    assert len(plans) == len(chosen.dry.launches) > 1
    choices.save("NVIDIA H200", work, chosen.label, plans)
    mg.tune.auto()
    assert launch_key(work.dry()) == launch_key(chosen.dry)
    host = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7
    there = op(mg.tensor(host, device="sim"), axis=axis).numpy()
    np.testing.assert_allclose(there, getattr(np, name)(host, axis=axis), rtol=1e-5)


def test_plans_are_those_of_the_work_alone():
    for n in (17, 18):
        mg.matmul.kernels["naive"].launch(n, n, n)
    work = work_of("matmul", [(5, 5), (5, 5)])
    assert [(role, sizes[:3]) for role, sizes, _ in choices.plans(work, mg.matmul)] == [("split_k", [5, 5, 5])]


def test_without_a_gpu_nothing_applies(recorded, monkeypatch):
    monkeypatch.setattr(choices, "why_not", lambda name: "no GPU")
    assert mg.tune.auto() == 0 and mg.relu["forward"].launch(2000).values == {"BLOCK": 256}


# --- on a GPU ---


@pytest.mark.gpu
def test_the_arithmetic_is_that_of_the_driver():
    gpu, driver = get("cuda"), ctypes.CDLL("libcuda.so.1")
    launches = [heaviest(setting.dry.launches, setting.op) for work in bench.suite() for setting in settings(work)]
    seen = {(key(launch), launch.block, launch.shared): launch for launch in launches}
    for launch in seen.values():
        taken = gpu.resources(gpu.build(launch.source, launch.defines, launch.kernel), launch.kernel)
        found = occupancy(launch, taken, gpu.chip)
        module, function, blocks = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        image = nvcc.cubin(launch.source, launch.defines, gpu.arch)
        with gpu.context.current():
            assert driver.cuModuleLoadData(ctypes.byref(module), image) == 0
            assert driver.cuModuleGetFunction(ctypes.byref(function), module, launch.kernel.encode()) == 0
            assert driver.cuFuncSetAttribute(function, 8, launch.shared) == 0  # the most of dynamic shared memory
            query = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
            query(ctypes.byref(blocks), function, found.threads, ctypes.c_size_t(launch.shared))
        assert blocks.value == found.blocks, (key(launch), found)
    assert len(seen) > 50


def test_the_plans_of_a_gradient_are_those_of_its_own_kernels():
    work = work_of(mg.relu, ((2**22,),), "backward")
    (setting,) = (s for s in settings(work) if s.values == {"BLOCK": 64})
    assert choices.plans(work, setting.op) == [("vectorized_backward", [2**22], {"BLOCK": 64})]


@pytest.mark.gpu
def test_a_choice_is_timed_once_and_then_known(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    first, second = mg.tune(mg.relu, (2**22,)), mg.tune(mg.relu, (2**22,))
    assert [s.how for s in first.searches] == ["timed now"] * 2
    assert [s.how for s in second.searches] == ["timed before"] * 2 and first.choice == second.choice
    assert get("cuda").label in first.explain() and "waves" in first.explain()
    assert mg.tune.auto() >= 2
    assert mg.relu["vectorized"].launch(2**22).values == first.choice
    mg.tune.auto(False)


@pytest.mark.parametrize(
    ("given", "params", "message"),
    [
        (
            ("relu",),
            {},
            r"relu takes \(x\); got 0 arguments. x is missing. Give each input by its shape, e.g. \(1024, 1024\)",
        ),
        (("relu", (3,), (4,)), {}, r"relu takes \(x\); got 2 arguments"),
        (("matmul", (3, 4)), {}, r"matmul takes \(a, b, precision\); got 1 arguments"),
        (("relu", (3,)), {"foo": 1}, r"relu takes \(x\); got 1 arguments, foo"),
        (("sum", (3,)), {"axis": 7}, "sum: axis 7 does not exist"),
        (("concatenate",), {}, "concatenate got no inputs"),
        ((3, (3,)), {}, "mg.bench or mg.tune takes an op, e.g. mg.relu; got int 3"),
        (("relu", (3,)), {"again": "yes"}, r"mg\.tune: again takes True or False; got str 'yes'"),
    ],
)
def test_inputs_that_an_op_does_not_take_are_refused(given, params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        mg.tune(*given, **params)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((1, 0, 16, 0, H200), "Occupancy: threads=0 must be a whole number of at least 1"),
        ((1, 1025, 16, 0, H200), "Occupancy: threads=1025; a block has at most 1024"),
        ((1, 32, -1, 0, H200), "Occupancy: registers=-1 must be"),
        ((1, 32, 16, 0.5, H200), "Occupancy: shared=0.5 must be"),
        ((1, 32, 16, 0, None), r"Occupancy: chip takes a chip, e\.g\. mg\.bench\.newest\(\)\.chip; got NoneType"),
    ],
)
def test_blocks_that_no_chip_can_hold(numbers, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Occupancy("kernel", *numbers)


def test_settings_that_there_are_not(monkeypatch):
    monkeypatch.setattr("minigrad.lab.tune.search.why_not", lambda name: "no GPU")
    monkeypatch.setattr("minigrad.lab.tune.search.recorded", lambda title: ({}, None))
    found = mg.tune.survey(work_of("relu", [(8,)]))
    assert found.at({"BLOCK": 64}).values == found.at("BLOCK=64").values == {"BLOCK": 64}
    with pytest.raises(ValueError, match=r"relu of 8 has no setting 'BLOCK=7'; it has BLOCK=32, BLOCK=64, .*1024"):
        found.at({"BLOCK": 7})
    with pytest.raises(TypeError, match=r"Search\.at takes values, as {'BLOCK': 64}; got int 7"):
        found.at(7)
    assert ", 6 settings)" in repr(found) and ", 1 setting)" in repr(mg.tune.survey(work_of("softmax", [(8192, 1024)])))
    with pytest.raises(TypeError, match=r"mg\.tune\.survey takes a work"):
        mg.tune.survey(None)
    with pytest.raises(ValueError, match=r"Regrets\.largest: count=-1 must be"):
        Regrets("here", ()).largest(-1)


def test_a_choice_depends_on_what_its_kernels_include(tmp_path):
    (tmp_path / "twice.cuh").write_text("__device__ float twice(float x) { return 2 * x; }")
    text = '#include "twice.cuh"\nextern "C" __global__ void relu_forward(const real* x, real* y, int n) {}'
    mine = mg.relu.with_kernel("forward", Kernel(Source(text, "relu.cu", tmp_path), "relu_forward"))
    before = choices.cache_key(work_of(mine, [(8,)]))
    assert choices.cache_key(work_of(mine, [(7,)])) == before
    (tmp_path / "twice.cuh").write_text("__device__ float twice(float x) { return x + x; }")
    assert choices.cache_key(work_of(mine, [(8,)])) != before


def test_choices_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    (tmp_path / "choices-some-gpu.json").write_text("{half")
    with pytest.raises(ValueError, match=r"choices-some-gpu\.json holds no choices .*; delete it"):
        choices.read("Some GPU")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mg.tune.regret(3), r"mg\.tune\.regret takes a record, e\.g\. mg\.bench\.newest\(\); got int 3"),
        (lambda: mg.tune.choose("relu"), r"mg\.tune\.choose takes a work, e\.g\. one of mg\.bench\.suite\(\)"),
        (lambda: mg.tune.auto("no"), r"mg\.tune\.auto: on takes True or False; got str 'no'"),
    ],
)
def test_the_parts_of_tune_say_what_they_take(call, message):
    with pytest.raises(TypeError, match=message):
        call()
