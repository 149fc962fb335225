"""The comparison with NVIDIA's tools, as far as possible without a GPU."""

import pytest

from minigrad.errors import DeviceError
from minigrad.lab.hardware import counters, races
from minigrad.lab.hardware import nvidia as hardware
from minigrad.microscope import watching

NCU = "==PROF== Connected to process 1\n" + "\n".join(
    ",".join(f'"{cell}"' for cell in row)
    for row in [
        ["ID", "Process ID", "Kernel Name", *counters.METRICS.values()],
        ["", "", "", *["", "inst"] * 5],
        ["0", "1", "transpose_naive", "1,024", *["2"] * 9],
        ["1", "1", "sum_tree(const float *, float *)", *["3"] * 10],
        ["2", "1", "sum_tree(const float *, float *)", *["4"] * 10],
    ]
)


def test_what_ncu_writes_is_read_and_launches_of_a_kernel_are_added_up():
    counts = hardware.read(NCU)
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    assert {kernel: numbers[requests] for kernel, numbers in counts.items()} == {"transpose_naive": 1024, "sum_tree": 7}
    with pytest.raises(DeviceError, match="no permission"):
        hardware.read("==ERROR== no permission to use performance counters")


@pytest.fixture(scope="module")
def counts():
    return counters.simulated()


@pytest.mark.soak  # 20 seconds; notebook 07 makes the same comparison
def test_the_simulators_side_has_the_numbers_of_the_transposes(counts):
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
    assert [counts[f"transpose_{name}"][sectors] for name in ("naive", "tiled", "padded")] == [65536, 8192, 8192]
    assert [counts[f"transpose_{name}"][conflicts] for name in ("naive", "tiled", "padded")] == [0, 64 * 992, 0]
    assert len(counts) == 15


@pytest.mark.soak
def test_both_sides_stand_in_one_table(counts, monkeypatch):
    monkeypatch.setattr(counters, "simulated", lambda: counts)
    rows = counters.compare({"kernels": hardware.read(NCU)}).rows
    assert ("transpose_naive", "global read requests", "1024", "2048") in rows
    assert ("transpose_naive", "global atomic requests", "2", "0") in rows
    assert ("matmul_tiled", "shared write wavefronts", "", "1024") in rows


@pytest.mark.parametrize("name", races.KERNELS)
def test_the_microscope_finds_the_races_that_racecheck_is_asked_for(name):
    racing, text = races.KERNELS[name]
    with watching() as report:
        races.run(name, "sim")
    assert {problem.kind for problem in report.problems} == ({"race"} if racing else set())
    assert all(problem.variable == "s" and problem.text in text for problem in report.problems)


@pytest.mark.gpu
def test_a_gpu_counts_the_sectors_of_the_transposes():
    try:
        found = hardware.profiled()
    except DeviceError as error:
        pytest.skip(str(error))  # no ncu, or no permission to read the counters
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    assert [found[f"transpose_{name}"][sectors] for name in ("naive", "tiled", "padded")] == [65536, 8192, 8192]
