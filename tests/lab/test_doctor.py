"""The doctor's table, the search for CUDA, and the installer of PyCUDA, all without a GPU."""

import re
import subprocess
import sys

import pytest

import minigrad as mg
from minigrad.devices.cuda import toolkit
from minigrad.errors import DeviceError
from minigrad.lab import doctor, install_cuda


@pytest.fixture(scope="module")
def report():
    return doctor.doctor()


def rows(report):
    return {row.part: row for row in report.rows}


def test_doctor_finds_what_the_tests_themselves_need(report):
    for part in ("Python", "NumPy", "C++ compiler", "simulator", "JupyterLab", "matplotlib"):
        assert rows(report)[part].state == "ok", report


def test_doctor_shows_every_part_as_text_and_as_html(report):
    for part, row in rows(report).items():
        assert part in repr(report) and part in report._repr_html_()
        assert row.state in ("ok", "missing", "failed")
    assert report.next_step in repr(report)


def test_doctor_is_a_function_of_the_package_even_after_its_module_is_imported():
    assert mg.doctor is doctor.doctor


def test_doctor_imports_no_cuda_here():
    code = "import sys, minigrad.lab.doctor as d; d.doctor(); sys.exit('pycuda' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_next_step_is_that_of_the_first_part_that_is_not_ok(monkeypatch):
    def broken():
        raise OSError("<it> is broken")

    def absent():
        raise DeviceError("not installed")

    checks = [("one", lambda: "1.0", "", "a"), ("two", broken, "", "b"), ("three", absent, "", "c")]
    monkeypatch.setattr(doctor, "CHECKS", checks)
    report = doctor.doctor()
    assert [row.state for row in report.rows] == ["ok", "failed", "missing"]
    assert report.next_step == "Next, for two: b"
    assert "&lt;it&gt; is broken" in report._repr_html_()


def test_doctor_counts_threads_and_says_what_a_compiler_without_openmp_lacks(monkeypatch):
    monkeypatch.setattr(doctor, "library", lambda dtype: (None, True))
    monkeypatch.setattr(doctor, "cores", lambda: [0, 3, 5])
    assert (row := rows(doctor.doctor())["OpenMP"]).state == "ok" and row.found == "3 threads"
    monkeypatch.setattr(doctor, "library", lambda dtype: (None, False))
    report = doctor.doctor()
    assert "runs with one thread" in rows(report)["OpenMP"].found
    assert report.next_step.startswith("Next, for OpenMP: Debian, Ubuntu: sudo apt install g++. macOS: brew")


def test_doctor_without_a_driver_says_that_none_is_needed(monkeypatch):
    monkeypatch.setattr(doctor, "find_driver", lambda: None)
    report = doctor.doctor()
    assert {rows(report)[part].state for part in ("NVIDIA driver", "GPU", "CUDA kernel")} == {"missing"}
    assert "none is needed" in report.next_step


def test_doctor_starts_two_ranks_or_says_what_to_install(report, monkeypatch):
    row = rows(report)["MPI"]
    assert row.state == "missing" or re.match(
        r"(MPICH|Open MPI) v?\d+\.\S+, mpi4py \d.*, .*mpiexec; 2 ranks ran", row.found
    ), row
    monkeypatch.setenv("MINIGRAD_MPIEXEC", "nowhere")
    row = doctor._row(*next(check for check in doctor.CHECKS if check[0] == "MPI"))
    assert row.state == "missing" and "there is no nowhere" in row.found and "pip install" in row.step


@pytest.fixture
def nowhere(monkeypatch):
    """No CUDA in the environment and none in the usual folders."""
    for key in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolkit, "DRIVER_FOLDERS", ())


def test_nvcc_is_taken_from_cuda_home_then_from_the_path(nowhere, monkeypatch, tmp_path):
    for name in ("home", "path"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/nvcc").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path/bin"))
    assert toolkit.find_nvcc() == tmp_path / "path/bin/nvcc"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert toolkit.find_nvcc() == tmp_path / "home/bin/nvcc"


def test_newer_toolkits_come_first(tmp_path):
    for name in ("cuda-12.9", "cuda-12.10", "cuda-13.0"):
        (tmp_path / name).mkdir()
    found = sorted(tmp_path.iterdir(), key=toolkit.release, reverse=True)
    assert [path.name for path in found] == ["cuda-13.0", "cuda-12.10", "cuda-12.9"]


def test_the_driver_is_found_and_a_stub_is_not_one(nowhere, monkeypatch, tmp_path):
    assert toolkit.find_driver() is None
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / "libcuda.so").touch()
    assert toolkit.find_driver() is None
    (tmp_path / "libcuda.so.1").touch()
    assert toolkit.find_driver() == tmp_path / "libcuda.so.1"


@pytest.mark.skipif(toolkit.find_nvcc() is None, reason="no nvcc on this machine")
def test_nvcc_says_its_version_and_where_its_headers_are():
    nvcc = toolkit.find_nvcc()
    assert float(toolkit.nvcc_version(nvcc)) >= 11
    assert (toolkit.find_headers(nvcc) / "cuda.h").is_file()


@pytest.fixture
def installing(monkeypatch, tmp_path):
    """`install_cuda` on a machine with a driver and no PyCUDA, its log in a folder of the test."""
    monkeypatch.setattr(install_cuda, "LOG", tmp_path / "log")
    monkeypatch.setattr(install_cuda, "find_driver", lambda: tmp_path / "libcuda.so.1")
    monkeypatch.setattr(install_cuda, "driver_version", lambda driver: "13.0")
    monkeypatch.setattr(install_cuda.util, "find_spec", lambda name: None)

    def main(*arguments):
        monkeypatch.setattr(sys, "argv", ["install_cuda", *arguments])
        install_cuda.main()

    return main


def test_install_does_nothing_without_a_driver(installing, monkeypatch, capsys):
    monkeypatch.setattr(install_cuda, "find_driver", lambda: None)
    installing()
    assert "No NVIDIA driver" in capsys.readouterr().out


def test_a_failed_build_says_why_and_where_and_is_not_tried_again(installing, monkeypatch, capsys):
    def fail(command, stdout, **options):
        stdout.write("wrap_cudadrv.cpp:1:10: fatal error: cuda.h: No such file or directory\n")
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(install_cuda, "find_nvcc", lambda: None)
    monkeypatch.setattr(install_cuda.subprocess, "run", fail)
    installing()
    said = capsys.readouterr().out
    assert "the CUDA toolkit lacks headers" in said and str(install_cuda.LOG) in said
    installing("--once")
    assert "could not be built before" in capsys.readouterr().out


def test_an_old_driver_is_not_given_a_newer_compiler(installing, monkeypatch, capsys):
    monkeypatch.setattr(install_cuda, "find_nvcc", lambda: None)
    monkeypatch.setattr(install_cuda, "driver_version", lambda driver: "12.8")
    installing()
    assert "the driver runs CUDA 12.8 where pip brings CUDA 13" in capsys.readouterr().out


def test_the_extras_are_read_from_the_metadata():
    assert [text.split(">")[0] for text in install_cuda.extra("cuda")] == ["pycuda"]
    assert len(install_cuda.extra("ctk")) == 1
