"""`minigrad bench`: options, the run over the suite, works that are not timed, and the newest record without a GPU."""

import runpy
from dataclasses import replace

import pytest
from bench_examples import H200, example

from minigrad import bench
from minigrad.errors import CompileError, KernelError, LaunchError
from minigrad.lab import cli as command_line
from minigrad.lab.bench import adjoints
from minigrad.lab.bench import record as dated
from minigrad.lab.check import ValueMismatch


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    return tmp_path


def test_without_a_gpu_nothing_is_measured(folder, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "why_not", lambda name: "device 'cuda': no GPU.")
    assert command_line.main(["bench"]) == 0
    assert "Speed cannot be measured here: device 'cuda': no GPU." in (said := capsys.readouterr().out)
    assert "There is no record yet." in said
    example().save()
    command_line.main(["bench", "--only", "matmul"])
    assert "NVIDIA H200, 2026-01-02" in (said := capsys.readouterr().out) and "matmul of 2 x 2" in said
    assert command_line.main(["bench", "--only", "relu"]) == 2
    assert "matmul of 2 x 2" not in (said := capsys.readouterr()).out
    assert "minigrad bench: NVIDIA H200, 2026-01-02 has no measurement of relu; it has of matmul" in said.err
    command_line.main(["bench", "--sweep"])
    assert "Choices against the best of a full sweep" in capsys.readouterr().out
    assert command_line.main(["bench", "--host"]) == 2 and "no record has the host's time" in capsys.readouterr().err
    times = {"add": {"minigrad": bench.Timing(1e-6, 1e-6, 1e-6, 20)}}
    replace(example(), host=times).save()
    assert command_line.main(["bench", "--host"]) == 0
    assert "add           1.00" in (said := capsys.readouterr().out) and "matmul of 2 x 2" not in said


@pytest.mark.parametrize("why", ["no GPU", ""])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--only sofmax", "only='sofmax' is not an op; the ops are add, "),
        ("--adjoint --only relu", "only='relu' is not a rung; the rungs are axpy"),
        ("--step --only relu", "--only relu: minigrad bench --step measures one thing"),
        ("--host --only chain", "--only chain: minigrad bench --host measures one thing"),
        ("--against warp", "minigrad bench: --against='warp' must be among torch, numpy"),
        ("--host --against numpy", "minigrad bench --host: --against='numpy' must be among torch"),
        ("--adjoint --against torch", "minigrad bench --adjoint: --against='torch' must be among warp"),
    ],
)
def test_options_that_do_not_go_together(why, words, said, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "why_not", lambda name: why)
    assert command_line.main(["bench", *words.split()]) == 2
    found = capsys.readouterr()
    assert said in found.err and not found.out and "bench: minigrad bench" not in found.err


def test_benchmarks_run_one_after_the_other(monkeypatch):
    ran = []
    monkeypatch.setattr(command_line, "_bench", lambda options, name: ran.append(name) or len(ran))
    assert command_line.main(["bench", "--attention", "--gpt"]) == 2 and ran == ["attention", "gpt"]
    assert command_line.main(["bench"]) == 3 and ran[-1] == ""


@pytest.fixture
def pretended(folder, monkeypatch):
    """A run with a fake GPU and fake times: the test is of the record."""
    took = bench.Timing(1e-4, 1e-4, 1e-4, 20)
    asked = []

    def timed(stage, against):
        asked.append((stage.title, tuple(against)))
        return bench.Measurement(stage.title, ("k",), took, 0, 1000)

    monkeypatch.setattr("minigrad.lab.bench.workloads.set_up", lambda work: work)
    monkeypatch.setattr("minigrad.lab.bench.workloads.timed", timed)
    monkeypatch.setattr("minigrad.lab.bench.workloads.copy_bandwidth", lambda: 4e12)
    monkeypatch.setattr(
        "minigrad.lab.bench.workloads.todays_record",
        lambda command, **tables: bench.Record("Some GPU", "2026-01-02", command, {}, H200, **tables),
    )
    monkeypatch.setattr(command_line, "why_not", lambda name: "")
    return asked


def test_a_run_measures_the_set_and_is_written(pretended, folder, capsys):
    assert command_line.main(["bench", "--only", "matmul", "--against", "numpy"]) == 0
    record = bench.load(folder / "some-gpu-2026-01-02.json")
    assert list(record.measurements) == [work.title for work in bench.suite("matmul")] and record.copy == 4e12
    assert record.command == "minigrad bench --only matmul --against numpy"
    assert {against for title, against in pretended if title.startswith("matmul naive")} == {()}
    assert {against for title, against in pretended if "8192 x 8192, 8192 x 8192" in title} >= {("numpy",)}
    said = capsys.readouterr().out
    assert "matmul naive of 1024 x 1024" in said and "some-gpu-2026-01-02.json" in said
    assert command_line.main(["bench", "--only", "sofmax"]) == 2
    assert "only='sofmax' is not an op" in capsys.readouterr().err


def test_host_costs_and_adjoints_are_written_to_records_of_their_own(folder, monkeypatch, capsys):
    def todays(command, **tables):
        return bench.Record("Some GPU", "2026-01-02", command, {}, **tables)

    timing = bench.Timing(1e-6, 1e-6, 1e-6, 20)
    cost = bench.HostCost("Some GPU", "2026-01-02", {"add": {"minigrad": timing}})
    monkeypatch.setattr(command_line, "why_not", lambda name: "")
    monkeypatch.setattr(dated, "todays_record", todays)
    monkeypatch.setattr(bench, "host_cost", lambda against: cost)
    monkeypatch.setattr(adjoints, "run", lambda only, against, track, command: todays(command, folder="adjoint"))
    assert command_line.main(["bench", "--host"]) == command_line.main(["bench", "--adjoint", "--only", "axpy"]) == 0
    assert bench.newest().host == cost.times and bench.newest().command == "minigrad bench --host"
    assert bench.newest_adjoints().command == "minigrad bench --only axpy --adjoint"
    assert "add           1.00" in (said := capsys.readouterr().out) and said.count("Written to ") == 2


def test_a_wrong_result_is_refused_and_the_run_goes_on(pretended, folder, monkeypatch, capsys):
    def timed(stage, against):
        if "naive" in stage.title:
            raise ValueMismatch(f"{stage.title} is off")
        return bench.Measurement(stage.title, ("k",), bench.Timing(1e-4, 1e-4, 1e-4, 20), 0, 1000)

    monkeypatch.setattr("minigrad.lab.bench.workloads.timed", timed)
    assert command_line.main(["bench", "--only", "matmul"]) == 1
    assert "matmul naive of 1024 x 1024, 1024 x 1024 is off" in capsys.readouterr().err
    record = bench.load(folder / "some-gpu-2026-01-02.json")
    assert all("naive" in title for title in record.refused) and len(record.refused) == 2
    assert len(record.measurements) == len(bench.suite("matmul")) - 2


def test_a_folder_that_takes_no_file_is_refused_before_anything_is_measured(pretended, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert command_line.main(["bench", "--only", "relu", "--save", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert f"no record can be written to {tmp_path / 'file'}: File exists. Name another: --save FOLDER." in said
    assert not pretended


@pytest.mark.parametrize("error", [MemoryError("12 bytes asked for"), LaunchError("no room"), CompileError("a.cu(3)")])
def test_a_work_that_the_gpu_has_no_room_for_is_refused_and_the_run_goes_on(pretended, monkeypatch, error):
    def set_up(work):
        if "268435456" in work.title:
            raise error
        return work

    monkeypatch.setattr("minigrad.lab.bench.workloads.set_up", set_up)
    record = bench.run("relu")
    assert record.refused == {"relu of 268435456": str(error)} and len(record.measurements) == 3


def test_a_kernel_that_goes_wrong_ends_the_run_and_what_was_measured_is_kept(pretended, monkeypatch):
    def set_up(work):
        if "268435456" in work.title:
            raise KernelError("illegal address", "relu_vectorized", "illegal-access")
        return work

    monkeypatch.setattr("minigrad.lab.bench.workloads.set_up", set_up)
    record = bench.run("relu")
    assert record.refused == {"relu of 268435456": "illegal address"}
    assert list(record.measurements) == ["relu of 67108864", "relu backward of 67108864"]


def test_a_work_with_a_setting_that_is_wrong_has_no_times(pretended, folder):
    def more(record, stage):
        record.choices[stage.title] = {"search": "BLOCK=64", "default": "BLOCK=64"}
        raise ValueMismatch("BLOCK=64 is wrong")

    record = bench.run("relu", more=more)
    assert record.refused and not record.measurements and not record.choices
    assert bench.load(record.save(folder)).refused == bench.load(record.save(folder)).refused == record.refused


def test_a_run_that_is_interrupted_keeps_what_it_has(pretended):
    def track(works):
        yield works[0]
        raise KeyboardInterrupt

    seen = []
    record = bench.run("matmul", track=track, more=lambda record, stage: seen.append(stage.title))
    assert list(record.measurements) == seen == [bench.suite("matmul")[0].title]


def test_the_doctor_on_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(command_line, "doctor", lambda: "its table")
    assert command_line.main(["doctor"]) == 0 and capsys.readouterr().out == "its table\n"
    monkeypatch.setattr("sys.argv", ["minigrad", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("minigrad", run_name="__main__")
    assert "bench" in (said := capsys.readouterr().out) and "doctor" in said
