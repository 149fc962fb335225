"""The launcher: values and output of every rank; a rank that fails in any way ends the job with a sentence."""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minigrad.distributed import __main__ as command
from minigrad.distributed import job, launch
from minigrad.errors import DeviceError, RankError

HEAD = "import ctypes, os, sys\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_values_and_output_of_every_rank(ranks, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code = """
        rank, total = comm.rank, comm.allreduce(comm.rank)
        threads, where = os.environ["OMP_NUM_THREADS"], sys.path[0]
        for i in range(200):
            print("rank", rank, "π", i)
        os.write(2, b"from C\\n")
    """.replace("\n        ", "\n")
    done = launch(ranks, HEAD + code, get=["rank", "total", "threads", "where"], threads=3)
    assert done["rank"] == list(range(ranks)) and done["total"] == [sum(range(ranks))] * ranks
    assert done["threads"] == ["3"] * ranks and done["where"] == [""] * ranks
    lines = [f"rank {rank} π {i}\n" for rank in range(ranks) for i in range(200)]
    assert [text.removesuffix("from C\n") for text in done.outputs] == [
        "".join(lines[200 * rank :][:200]) for rank in range(ranks)
    ]
    assert f"[{ranks - 1}] from C" in repr(done)


FAULTS = {
    "comm.foo": (r"rank 1 of 3 raised AttributeError: .*'foo' \(line 6 of code.py\)\.", 'line 6, in <module>\n    '),
    "raise KeyboardInterrupt": (r"rank 1 of 3 raised KeyboardInterrupt \(line 6", "KeyboardInterrupt"),
    "def f(): return [][1]\n    f()": (r"raised IndexError: .* \(line 6", 'line 7, in <module>\n    f()\n  File "code'),
    "exec(compile('1 +', 'cell', 'exec'))": (r"rank 1 of 3 raised SyntaxError: invalid syntax", "1 +"),
    "sys.exit(3)": (r"rank 1 of 3 ended the job by sys.exit\(3\)", ""),
    "sys.exit('no data')": (r"rank 1 of 3 ended the job by sys.exit\('no data'\)", ""),
    "os._exit(3)": ("rank 1 of 3 ended with status 3 and no exception", ""),
    "os._exit(0)": ("rank 1 of 3 ended with status 0 and no exception", ""),
    "os.kill(os.getpid(), 9)": ("rank 1 of 3 was killed by SIGKILL, as the system does where memory runs out", ""),
    "ctypes.string_at(0)": (r"rank 1 of 3 was killed by SIGSEGV in line 6 of code.py", ""),
    "comm.Abort(5)": (r"rank 1.*ended with status 5 and no exception|mpiexec ended with status 5\..*rank 1", ""),
}  # fmt: skip


@pytest.mark.mpi
@pytest.mark.parametrize("fault", FAULTS)
def test_a_rank_that_fails_ends_the_job_and_is_named(fault):
    sentence, trace = FAULTS[fault]
    start = time.monotonic()
    with pytest.raises(RankError, match=sentence) as caught:
        launch(3, f"{HEAD}comm.barrier()\nif comm.rank == 1:\n    {fault}\ncomm.recv()\n")
    assert time.monotonic() - start < 10
    said = re.sub(r"^ *[~^]+\n", "", caught.value.trace, flags=re.M)  # which Python 3.13 has below more lines
    assert trace in said and "rank.py" not in said
    assert caught.value.rank == 1 or "Abort" in fault  # with which MPICH leaves no time for a report


@pytest.mark.mpi
def test_an_mpiexec_that_does_not_notice_a_failure_is_stopped(monkeypatch, tmp_path):
    waiting = tmp_path / "waiting.py"
    waiting.write_text("import subprocess, sys, time\nsubprocess.call(sys.argv[3:])\ntime.sleep(50)")
    monkeypatch.setenv(job.MPIEXEC, f"{sys.executable} {waiting}")
    monkeypatch.setattr(job, "GRACE", 0.2)
    start = time.monotonic()
    with pytest.raises(RankError, match="rank 0 of 1 was killed by SIGKILL"):
        launch(1, f"{HEAD}os.kill(os.getpid(), 9)")
    assert time.monotonic() - start < 10


@pytest.mark.mpi
def test_the_first_of_several_failures_is_named():
    late = "import time\ncomm.barrier()\ntime.sleep(comm.rank != 2)\nraise ValueError(comm.rank)"
    with pytest.raises(RankError, match="rank 2 of 4 raised ValueError: 2"):
        launch(4, HEAD + late)


@pytest.mark.mpi
def test_ranks_that_wait_for_ever_are_stopped_and_located():
    code = f"{HEAD}if comm.rank == 0:\n    comm.recv()\nif comm.rank == 2:\n    pass\n    comm.recv()"
    with pytest.raises(RankError, match=r"the time limit of 3 s was reached") as caught:
        launch(3, code, timeout=3)
    for place in ("rank 0 in line 5 of code.py", "rank 1 at the end of its code", "rank 2 in line 8 of code.py"):
        assert place in str(caught.value)


@pytest.mark.mpi
def test_an_mpiexec_of_another_mpi_is_found(monkeypatch, tmp_path):
    apart = tmp_path / "apart.py"  # processes that do not know of each other
    apart.write_text("import subprocess, sys\nfor job in [subprocess.Popen(sys.argv[3:]) for _ in '12']: job.wait()")
    monkeypatch.setenv(job.MPIEXEC, f"{sys.executable} {apart}")
    with pytest.raises(RankError, match=r"2 ranks should start, and one found itself in a job of 1: its library"):
        launch(2, "pass")
    apart.write_text("print('no PMI server')")
    with pytest.raises(RankError, match=r"0 of 2 ranks began, and mpiexec ended with status 0. It said: no PMI server"):
        launch(2, "pass")


@pytest.mark.mpi
def test_values_that_cannot_come_back_are_answered():
    with pytest.raises(RankError, match=r"rank [01] of 2 raised NameError: the code has no variable `loss`"):
        launch(2, "pass", get="loss")
    with pytest.raises(RankError, match=r"raised TypeError: `f` cannot be sent back: .* Give numbers, arrays"):
        launch(1, "f = lambda: 0", get="f")
    with pytest.raises(TypeError, match=r"`x` of rank 0 cannot be read here: .* a class must be of a module"):
        launch(1, "class Own:\n    pass\nx = Own()", get="x")


@pytest.mark.mpi
def test_two_jobs_at_once():
    code = f"{HEAD}total = comm.allreduce(int(sys.argv[1]))"
    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(launch, 2, code, [str(i)], get="total") for i in range(2)]
    assert [done.result()["total"] for done in jobs] == [[0, 0], [2, 2]]


@pytest.mark.mpi
def test_an_interrupt_ends_the_ranks():
    def show(rank, lines):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(2, f"{HEAD}print(1)\ncomm.recv()", show=show)


@pytest.mark.mpi
def test_the_command_prints_lines_as_they_come_and_the_failure_last(tmp_path):
    script = tmp_path / "script.py"
    (tmp_path / "neighbor.py").write_text("number = 7")
    script.write_text(
        f"{HEAD}import neighbor\nprint(sys.argv[1:], neighbor.number, end='')\nassert comm.rank or not sys.argv[1:]"
    )
    run = [sys.executable, "-m", "minigrad.distributed", "-n", "2", script]
    done = subprocess.run([*run, "-x", "y"], capture_output=True, text=True)
    assert done.returncode == 1 and sorted(done.stdout.splitlines())[0] == "[0] ['-x', 'y'] 7"
    last = done.stderr.splitlines()
    assert last[-1] == f"rank 0 of 2 raised AssertionError (line 6 of {script.name})."
    assert last[0] == "Traceback (most recent call last):"
    assert subprocess.run(run, capture_output=True, check=True).stderr == b""


def test_without_mpi_a_sentence_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setenv(job.MPIEXEC, "nowhere -v")
    monkeypatch.setattr(job, "find_spec", lambda name: name)
    with pytest.raises(DeviceError, match=r"there is no nowhere: pip install 'minigrad-cuda\[mpi\]', or name another"):
        launch(2, "pass")
    monkeypatch.setattr(job, "find_spec", lambda name: None)
    assert command.main(["-n", "2", __file__]) == 2
    assert "MPI is not installed: pip install 'minigrad-cuda[mpi]'" in capsys.readouterr().err
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(DeviceError, match="WSL2"):
        job.mpiexec()


def test_arguments_are_checked(monkeypatch):
    monkeypatch.setattr(job, "mpiexec", lambda: ["true"])
    with pytest.raises(ValueError, match="launch: ranks=0 must be a whole number of at least 1"):
        launch(0, "pass")
    with pytest.raises(ValueError, match=r"launch: there is no file missing\.py"):
        launch(1, Path("missing.py"))
    with pytest.raises(TypeError, match="launch takes code as text, or the Path of a script; got int 3"):
        launch(1, 3)


def test_ranks_have_an_environment_of_their_own(monkeypatch):
    monkeypatch.setattr(job, "cores", lambda: [0, 1])
    monkeypatch.delenv("MPIR_CVAR_ENABLE_HEAVY_YIELD")  # of all tests
    few, many = job.environment(2, 1, 60), job.environment(3, 1, 60)
    assert few["OPENBLAS_NUM_THREADS"] == "1" and few["MPIEXEC_TIMEOUT"] == "62"
    assert many["MPIR_CVAR_ENABLE_HEAVY_YIELD"] == "1" and "MPIR_CVAR_ENABLE_HEAVY_YIELD" not in few
    monkeypatch.setattr(sys, "platform", "darwin")  # its host names resolve to nothing
    assert job.environment(1, 1, 60)["MPICH_INTERFACE_HOSTNAME"] == "localhost"
