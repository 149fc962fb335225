"""The house rules that a machine can check: lint, types, imports, sizes, and how notebooks are stored."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from minigrad.source import Source

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "minigrad"
MODULES = sorted(PACKAGE.rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KERNELS = sorted((ROOT / "cuda").rglob("*.cu"))

HEAVY = {"pycuda", "matplotlib", "ipywidgets", "IPython", "sklearn", "torch", "warp"}
IMPORT = """
import json, sys, time
import numpy
start = time.process_time()
import minigrad
print(json.dumps([time.process_time() - start, sorted({name.partition(".")[0] for name in sys.modules})]))
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
    assert min(times) < 0.2, f"import minigrad takes {min(times):.2f} s beyond NumPy"


def imports(path: Path) -> set[str]:
    """The packages that a module imports anywhere, by their first name."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("required, code", [("0", 0), ("1", 1)])
def test_gpu_tests_are_skipped_loudly(tmp_path, monkeypatch, required, code):
    (tmp_path / "test_gpu.py").write_text("import pytest\n\n@pytest.mark.gpu\ndef test_it():\n    assert False\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("MINIGRAD_REQUIRE_GPU", required)
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    done = run("-m", "pytest", "-p", "no:cacheprovider", "-c", "pyproject.toml", str(tmp_path))
    assert done.returncode == code, done.stdout
    assert "1 gpu cells and tests skipped: no CUDA device" in done.stdout


def test_pycuda_is_imported_in_one_file():
    assert [name_of(path) for path in MODULES if "pycuda" in imports(path)] == ["minigrad/devices/cuda/gpu.py"]


def test_widgets_and_plots_are_imported_in_one_folder():
    drawing = {path for path in MODULES if imports(path) & {"ipywidgets", "matplotlib"}}
    assert not [name_of(path) for path in drawing if PACKAGE / "lab" / "show" not in path.parents]


def test_modules_fit_in_the_head():
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert not {name: count for name, count in lengths.items() if count > 400}


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


def skipped(cell: nbformat.NotebookNode) -> bool:
    return bool({"nbval-skip", "gpu"} & set(cell.metadata.get("tags", [])))
