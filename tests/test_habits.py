"""House rules: lint, types, a quick import, kernels that fit on a page, and how notebooks are stored."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from minigrad.source import Source

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KERNELS = sorted((ROOT / "cuda").rglob("*.cu"))

HEAVY = {"pycuda", "matplotlib", "ipywidgets", "IPython", "sklearn", "torch", "warp"}
IMPORT = """
import json, sys, time
times = [time.process_time()]
import numpy
times.append(time.process_time())
import minigrad
times.append(time.process_time())
print(json.dumps([times, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)


def passes(*command: str) -> None:
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint():
    passes("-m", "ruff", "check", "--quiet", "minigrad", "tests", "notebooks", "conftest.py")


def test_format():
    passes("-m", "ruff", "format", "--check", "minigrad", "tests", "conftest.py")


def test_types():
    passes("-m", "mypy")


def test_import_is_silent_quick_and_light():
    runs = [run("-W", "error", "-c", IMPORT) for _ in range(5)]
    assert {(done.returncode, done.stderr) for done in runs} == {(0, "")}
    times, modules = zip(*(json.loads(done.stdout) for done in runs), strict=True)
    assert not HEAVY & set(modules[0])
    ratio = min((end - middle) / (middle - start) for start, middle, end in times)
    assert ratio < 2, f"import minigrad takes {ratio:.1f} times as long as import numpy"


@pytest.mark.parametrize("required, code", [("0", 0), ("1", 1)])
def test_tests_are_skipped_loudly(tmp_path, monkeypatch, required, code):
    (tmp_path / "test_gpu.py").write_text("import pytest\n\n@pytest.mark.gpu\ndef test_it():\n    assert False\n")
    needy = 'import sys\nimport pytest\n\nsys.modules["torch"] = None\npytest.importorskip("torch")\n'
    (tmp_path / "test_torch.py").write_text(needy)
    (tmp_path / "test_ranks.py").write_text("import pytest\n\n@pytest.mark.mpi\ndef test_it():\n    assert False\n")
    monkeypatch.setenv("MINIGRAD_MPIEXEC", "nowhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("MINIGRAD_REQUIRE_GPU", required)
    own = "-p", "conftest", "-o", "pythonpath="  # the one in the root, and not that of tests/
    done = run("-m", "pytest", *own, "-p", "no:cacheprovider", "-c", "pyproject.toml", str(tmp_path))
    assert done.returncode == code, done.stdout
    assert "1 gpu cells and tests skipped: no CUDA device" in done.stdout
    assert "1 tests, or files of them, skipped: they need PyTorch" in done.stdout
    assert "1 tests skipped: they need MPI: mpi4py and mpich from the mpi extra" in done.stdout


@pytest.mark.parametrize("path", KERNELS, ids=name_of)
def test_kernels_fit_on_a_page(path):
    source = Source.read(path.relative_to(ROOT / "cuda").as_posix())
    lengths = {name: len(source.kernel_text(name)[1].splitlines()) for name in source.kernels}
    assert lengths and max(lengths.values()) <= 60, lengths


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_notebooks_are_stored_run_and_without_widget_state(path):
    assert path.stat().st_size < 500_000, "a stored notebook stays below 500 kB; draw fewer or smaller pictures"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata, "clear the widget state: nbstripout --extra-keys metadata.widgets"
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    unrun = [cell.source for cell in code if cell.execution_count is None and not skipped(cell)]
    assert not unrun, "run the notebook before storing it"
    assert any(cell.outputs for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_code_in_notebooks_is_as_wide_as_its_cell(path):
    """In a window of 1280 pixels a cell of JupyterLab holds about 107 characters."""
    code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    wide = [line for source in code for line in source.splitlines() if len(line) > 100]
    assert not wide, "wrap code in notebooks at 100 characters:\n" + "\n".join(wide)


def test_a_learner_finds_nothing_but_notebooks():
    """`make lab` hides the folder of records."""
    others = [path.name for path in (ROOT / "notebooks").iterdir() if path.suffix != ".ipynb"]
    assert {name for name in others if not name.startswith(".")} <= {"records", "__pycache__"}
    assert "--ContentsManager.hide_globs=records" in (ROOT / "Makefile").read_text()


def skipped(cell: nbformat.NotebookNode) -> bool:
    return bool({"nbval-skip", "gpu"} & set(cell.metadata.get("tags", [])))
