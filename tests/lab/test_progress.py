"""What a reader solves is kept over sessions, in one file, which is written whole and may be damaged or missing."""

import json
import os
import subprocess
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell

import minigrad as mg
from minigrad.lab import notebook as magic
from minigrad.lab import progress
from minigrad.lab.check.kernel import OpTrial
from minigrad.lab.exercises.course import all_exercises

COUNT = all_exercises()["count_blocks"]
RELU = mg.relu["forward"].text


@pytest.fixture
def path(tmp_path, monkeypatch):
    """An empty place for the file."""
    path = tmp_path / "new" / "progress.json"
    monkeypatch.setenv("MINIGRAD_PROGRESS", str(path))
    return path


@pytest.fixture(scope="module")
def shell():
    made = InteractiveShell()
    magic.register(made)
    yield made
    made.history_manager.end_session()
    made.history_manager = None


def test_tests_do_not_write_the_users_file():
    assert os.environ["MINIGRAD_PROGRESS"] == "off" and progress.file() is None
    assert progress.remember("exercise", COUNT.name, "01", "text") == "" and not mg.progress().solved


def test_the_file_is_in_the_users_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("MINIGRAD_PROGRESS")
    monkeypatch.setattr("platformdirs.user_data_dir", lambda name: str(tmp_path / name))
    assert progress.file() == tmp_path / "minigrad" / "progress.json"


def test_a_pass_of_the_magic_is_kept_over_sessions(path, shell):
    shell.run_cell_magic("exercise", COUNT.name, COUNT.skeleton)
    shell.run_cell_magic("exercise", COUNT.name, "def count_blocks(n, BLOCK): return n")
    assert not path.exists()
    assert shell.run_cell_magic("exercise", COUNT.name, COUNT.solution()).correct
    script = "import minigrad as mg; print([s.text for s in mg.progress().solved] == [input()])"
    other = subprocess.run([sys.executable, "-c", script.replace("input()", "mg.exercise('count_blocks').solution()")],
                           capture_output=True, text=True, check=True, env=os.environ)  # fmt: skip
    assert other.stdout == "True\n"


def test_a_check_that_is_no_cell_is_not_kept(path):
    assert COUNT.check(COUNT.solution()).correct
    assert mg.check.kernel(mg.relu, "forward", RELU.replace("i < n", "i < n - 1")).kind == "never-written"
    assert not path.exists()


def test_a_kernel_of_the_readers_own_is_kept_with_its_notebook(path, shell, monkeypatch):
    monkeypatch.setattr(OpTrial, "tunables", {"BLOCK": (256,)})
    monkeypatch.setenv("JPY_SESSION_NAME", "course/01_your_first_kernel.ipynb")
    assert shell.run_cell_magic("kernel", "relu_forward mine", RELU).correct
    assert not shell.run_cell_magic("kernel", "relu backward", RELU).correct
    (kept,) = mg.progress().solved
    assert (kept.kind, kept.name, kept.notebook, kept.text.strip()) == ("kernel", "relu forward", "01", RELU.strip())


def test_a_kernel_that_passed_in_a_cell_trains_from_then_on(path, shell):
    step = all_exercises()["sgd_step"]
    assert shell.run_cell_magic("exercise", "sgd_step", step.solution()).correct
    weight = mg.tensor([1.0, 2.0], requires_grad=True, device="sim")
    weight.grad = mg.tensor([1.0, -1.0], device="sim")
    mine = mg.mine()
    with mg.using(*mine):
        mg.optim.SGD([weight], lr=0.5).step()
    assert weight.numpy().tolist() == [0.5, 2.5] and mine.launches == {"sgd_step": 1}
    with mg.using(shell.user_ns["sgd_step"]) as taken:
        mg.optim.SGD([weight], lr=0.5).step()
    assert weight.numpy().tolist() == [0.0, 3.0] and taken.launches == {"sgd_step": 1}


def test_the_table_has_every_exercise_and_the_readers_kernels(path):
    progress.remember("exercise", "clip", "01", all_exercises()["clip"].solution())
    progress.remember("exercise", COUNT.name, "01", COUNT.solution())
    progress.remember("kernel", "relu forward", "", RELU)
    table = mg.progress().table()
    day = mg.progress().solved[0].date[:10]
    rows = {row[1]: row for row in table.rows}
    assert rows["clip"] == ("01", "clip", "Clip", day, "", "yours")
    assert rows["count_blocks"][3:] == (day, "", "") and rows["add_bounds"][3:] == ("", "", "")
    assert rows["%%kernel relu forward"] == ("", "%%kernel relu forward", "", day, "", "yours")
    assert rows.keys() >= all_exercises().keys()
    assert f"2 of {len(all_exercises())} exercises solved; 2 kernels are yours." in table.caption
    assert "<table" in mg.progress()._repr_html_()


def test_the_help_taken_before_the_first_pass_is_kept(path, shell, monkeypatch):
    monkeypatch.setattr(COUNT, "_hinted", 0)
    monkeypatch.setattr(COUNT, "_shown", False)
    COUNT.hint()
    shell.run_cell_magic("exercise", COUNT.name, solution := COUNT.solution())
    assert [each.help for each in mg.progress().solved] == ["1 hint, solution seen"]
    COUNT.hint()
    shell.run_cell_magic("exercise", COUNT.name, solution)
    progress.remember("exercise", "clip", "01", "text")
    assert [each.help for each in mg.progress().solved] == ["1 hint, solution seen", ""]
    assert "1 hint, solution seen" in repr(mg.progress())


@pytest.mark.soak
def test_no_solution_counts_as_seen_before_a_reader_asks_for_one():
    """In a new process: every exercise is loaded and shown, and those in Python are checked."""
    script = """
from minigrad.lab.exercises.course import all_exercises
for each in all_exercises().values():
    repr(each), each.python and each.check(each.skeleton)
    passed = not each.python or each.slow or each.check(str(each._solution)).correct
    assert passed and each.help == (0, False), each.name
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ)
    assert not found.returncode, found.stderr


def test_a_file_from_before_help_was_kept_is_read(path):
    path.parent.mkdir()
    entry = {"kind": "exercise", "name": "clip", "notebook": "01", "date": "2026-01-01", "text": "x"}
    path.write_text(json.dumps({"solved": [entry]}))
    assert [each.help for each in mg.progress().solved] == [""] and not mg.progress().note


def test_a_later_text_replaces_the_one_before(path):
    for text in ("first", "second"):
        assert progress.remember("exercise", "clip", "01", text) == ""
    assert [each.text for each in mg.progress().solved] == ["second"]
    assert sorted(each.name for each in path.parent.iterdir()) == [".progress.json.lock", "progress.json"], (
        "scratch files are gone"
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"solved": 3}', b'{"solved": [{"kind": "exercise"}]}',
     json.dumps({"solved": [dict.fromkeys(("kind", "name", "notebook", "date", "text"), 1)]}).encode(),
     json.dumps({"solved": [dict.fromkeys(("kind", "name", "notebook", "date", "text"), "x")]}).encode()],
)  # fmt: skip
def test_a_damaged_file_is_put_aside_by_the_next_pass(path, content):
    path.parent.mkdir()
    for passes in (1, 2):
        path.write_bytes(content)
        assert f"{path} is damaged, " in repr(mg.progress()) and path.read_bytes() == content, "to look changes nothing"
        assert "was damaged" in progress.remember("exercise", "clip", "01", "text"), "the answer says so"
        aside = list(path.parent.glob("progress.json.damaged-*"))
        assert [each.read_bytes() for each in aside] == [content] * passes, "each damaged file is kept"
        assert [each.name for each in mg.progress().solved] == ["clip"] and not mg.progress().note


def test_unknown_fields_and_damaged_entries_leave_the_others(path):
    path.parent.mkdir()
    entry = {"kind": "exercise", "name": "clip", "notebook": "01", "date": "2026-01-01", "text": "x"}
    path.write_text(json.dumps({"solved": [entry | {"later": 1}]}))
    assert [each.name for each in mg.progress().solved] == ["clip"] and not mg.progress().note
    path.write_text(json.dumps({"solved": [entry, entry | {"text": 1}]}))
    assert [each.name for each in mg.progress().solved] == ["clip"]
    assert "1 of its 2 entries cannot be used" in mg.progress().note
    progress.remember("exercise", COUNT.name, "01", "y")
    assert [each.name for each in mg.progress().solved] == ["clip", COUNT.name]


def test_a_file_that_cannot_be_read_is_not_replaced(path, monkeypatch):
    progress.remember("exercise", "clip", "01", "first")

    def fails(path):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.read_bytes", fails)
        patch.setattr("pathlib.Path.read_text", lambda path, encoding: fails(path))
        assert "cannot be read (Permission denied)" in progress.remember("exercise", COUNT.name, "01", "second")
        assert "cannot be read: " in mg.progress().note
    assert [each.text for each in mg.progress().solved] == ["first"]


def test_a_text_that_is_no_unicode_is_kept(path):
    assert progress.remember("exercise", "clip", "01", "a\ud800") == ""
    assert mg.progress().solved[0].text == "a\ud800"


def test_several_processes_keep_all_that_they_remember(path):
    script = (
        "from minigrad.lab.progress import remember; [remember('exercise', f'{i}'+'NAME', '', 'x') for i in range(20)]"
    )
    running = [subprocess.Popen([sys.executable, "-c", script.replace("NAME", name)], env=os.environ) for name in "ab"]
    assert [each.wait() for each in running] == [0, 0]
    assert len(mg.progress().solved) == 40


def test_a_file_that_cannot_be_written_gives_a_sentence(tmp_path, monkeypatch, shell):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINIGRAD_PROGRESS", str(tmp_path / "file" / "progress.json"))
    found = shell.run_cell_magic("exercise", COUNT.name, COUNT.solution())
    assert found.correct and "not kept for later sessions" in found.text and "MINIGRAD_PROGRESS" in found.text


def test_a_write_that_fails_leaves_the_old_file(path, monkeypatch):
    progress.remember("exercise", "clip", "01", "first")

    def fails(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("minigrad.lab.progress.os.replace", fails)
    assert "No space left on device" in progress.remember("exercise", "clip", "01", "second")
    assert [each.text for each in mg.progress().solved] == ["first"]
    assert sorted(each.name for each in path.parent.iterdir()) == [".progress.json.lock", "progress.json"]


def test_a_path_that_is_no_regular_file_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_PROGRESS", str(tmp_path))
    assert "no regular file" in mg.progress().note
    assert "no regular file" in progress.remember("exercise", "clip", "01", "text")
    assert tmp_path.is_dir()
