"""The walls of the house, read off the syntax tree: which file may import which, how large files grow, and plain words.

Imports inside functions and under TYPE_CHECKING count; modules that are loaded by name at run time, as devices are, do
not. Each rule yields its breaches; counter-examples on small packages show that it finds them.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "minigrad"
LEVELS = (
    "errors display case scan < members < source operators tape < devices < numpy_functions"
    " < simulator kernels tensor < rounding"
    " < replay call create < op microscope < ops adjoint < nn optim data < fusion recurrent distributed < lab"
    " < minigrad __main__"  # the face, which nothing imports
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS.split(" < ")) for room in rooms.split()}
HOMES = {"pycuda": "devices/cuda", "ipywidgets": "lab/show", "matplotlib": "lab/show"}
CORE = "tensor operators tape op call create nn/module nn/linear optim/optimizer"
WIDER_CORE = f"{CORE} devices/array devices/device kernels/kernel kernels/launch"
ROOT_FILES, ROOT_FOLDERS, FOLDER_FILES, ADJOINT_FILES, LINES = 15, 15, 15, 55, 400
FLAT = {"ops", "lab/exercises/course"}  # one op, one exercise a file
OPENINGS = re.compile(r"(What|Whether|How|That|Which|Who|Why|So many|As many|Of two|Of several|Such) ")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
PRIVATE = re.compile(
    r"\b((is|are|as) told|gone through|to be had|anew|such a one|so many of|refus(ed?|es|als?)|beside)\b"
)


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def modules(package: Path) -> dict[str, Path]:
    """Every module by its dotted name."""
    paths = ((path.relative_to(package.parent).with_suffix("").parts, path) for path in sorted(package.rglob("*.py")))
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for parts, path in paths}


def imports(name: str, path: Path) -> Iterator[tuple[str, str]]:
    """Each module that a file imports from, with the name taken from it, or an empty one."""
    inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), inside)
            yield from ((source, alias.name) for alias in node.names)


@cache
def graph(package: Path) -> dict[str, set[str]]:
    """The modules of the package that each of its modules imports."""
    known = modules(package)
    arrows = {
        name: {full if (full := f"{source}.{taken}") in known else source for source, taken in imports(name, path)}
        for name, path in known.items()
    }
    return {name: found & set(known) - {name} for name, found in arrows.items()}


def circles(package: Path) -> Iterator[str]:
    try:
        TopologicalSorter(graph(package)).prepare()
    except CycleError as error:
        yield " <- ".join(error.args[1])


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else name


def upward_arrows(package: Path) -> Iterator[str]:
    """Arrows to another room that is not on a lower level, and rooms without a level."""
    for name, found in graph(package).items():
        level = LEVEL.get(room(name), 0)
        if room(name) not in LEVEL:
            yield f"{name} has no level"
        others = [other for other in found if room(other) != room(name)]
        yield from (f"{name} -> {other}" for other in others if LEVEL.get(room(other), level) >= level)


def stray_libraries(package: Path) -> Iterator[str]:
    for name, path in modules(package).items():
        found = {source.partition(".")[0] for source, _ in imports(name, path)} & HOMES.keys()
        yield from (f"{name} imports {x}" for x in found if package / HOMES[x] not in path.parents)


def crowded_folders(package: Path) -> Iterator[str]:
    """A folder that holds too many files; one with subfolders is sorted already."""
    files = Counter(path.parent for path in package.rglob("*.py"))
    folders = {folder: {other for other in files if other.parent == folder} for folder in files}
    limits = {package: ROOT_FILES} | {package / flat: 10**6 for flat in FLAT}
    for folder, count in files.items():
        if count > limits.get(folder, 10**6 if folders[folder] else FOLDER_FILES):
            yield f"{folder.name}: {count} files"
    adjoint = len(list((package / "adjoint").rglob("*.py")))
    for name, count, most in (("folders", len(folders[package]), ROOT_FOLDERS), ("adjoint", adjoint, ADJOINT_FILES)):
        if count > most:
            yield f"{name}: {count}"


def long_files(package: Path) -> Iterator[str]:
    paths = [*package.rglob("*.py"), *(package.parent / "tests").rglob("*.py")]
    yield from (f"{path.relative_to(package.parent)}: {lines(path)}" for path in paths if lines(path) > LINES)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def large_core(package: Path) -> Iterator[str]:
    """The files that a learner reads, a room of which may be a folder: their number, and their lines."""
    for names, most_files, most_lines in ((CORE, 10, 1500), (WIDER_CORE, 14, 2000)):
        files = [path for name in names.split() for path in sorted(package.glob(f"{name}.py"))]
        files += [path for name in names.split() for path in sorted((package / name).rglob("*.py"))]
        if len(files) > most_files or sum(map(lines, files)) > most_lines:
            yield f"{len(files)} files, {sum(map(lines, files))} lines; at most {most_files} and {most_lines}"


def classes_of_one_name(package: Path) -> Iterator[str]:
    homes = defaultdict(list)
    for name, path in modules(package).items():
        for node in (node for node in nodes(path) if isinstance(node, ast.ClassDef)):
            homes[node.name].append(name)
    yield from (f"{name}: {', '.join(found)}" for name, found in homes.items() if len(found) > 1)


def unplain_docstrings(package: Path) -> Iterator[str]:
    """Docstrings that open with a clause in place of a noun, or hold a phrase that is no English of the field."""
    for name, path in modules(package).items():
        for node in nodes(path):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            if text and (found := OPENINGS.match(text) or PRIVATE.search(" ".join(text.split()))):
                yield f"{name}:{getattr(node, 'lineno', 1)}: {found[0].strip()!r} in {text.splitlines()[0]!r}"


LONG = "\n" * (LINES + 1)
MANY = {f"nn/f{n}.py": "" for n in range(FOLDER_FILES + 1)}
RULES = {  # each with small packages that break it: the text of each file
    circles: [
        {"op.py": "def f():\n    from minigrad.tape import x", "tape.py": "import minigrad.op"},
        {"nn/__init__.py": "from minigrad.nn import a", "nn/a.py": "from minigrad.nn import b"},
        {"nn/a.py": "from . import b", "nn/b.py": "from .a import c"},
    ],
    upward_arrows: [
        {"tape.py": "if TYPE_CHECKING:\n    from minigrad.op import Op", "op.py": ""},
        {"errors.py": "", "display.py": "import minigrad.errors"},
        {"fusion/__init__.py": "def f():\n    from minigrad.lab import show", "lab/show/__init__.py": ""},
        {"attic.py": ""},
        {"lab/a.py": "import minigrad as mg"},
        {"lab/a.py": "def f():\n    from minigrad import relu"},
        {"lab/a.py": "import minigrad.__main__", "__main__.py": ""},
    ],
    stray_libraries: [
        {"devices/gpu.py": "import pycuda.driver"},
        {"lab/bench.py": "def f():\n    from matplotlib.axes import Axes"},
    ],
    crowded_folders: [
        MANY,
        {f"f{n}.py": "" for n in range(ROOT_FILES)},  # and the face
        {f"f{n}/a.py": "" for n in range(ROOT_FOLDERS + 1)},
        {f"adjoint/f{n % 5}/f{n}.py": "" for n in range(ADJOINT_FILES + 1)},
    ],
    long_files: [{"op.py": LONG}, {"../tests/ops/test_op.py": LONG}],
    large_core: [
        dict.fromkeys(("op.py", "nn/module.py", "optim/optimizer.py", "call.py"), LONG),
        {f"op/f{n}.py": "" for n in range(11)},
        {"devices/array.py": 6 * LONG},
    ],
    classes_of_one_name: [{"op.py": "class A: pass", "nn.py": "def f():\n    class A: pass"}],
    unplain_docstrings: [
        {"op.py": '"""What an op is."""'},
        {"op.py": 'class A:\n    """Whether it was done."""'},
        {"op.py": 'def f():\n    """A launch that\n    is refused."""'},
    ],
}


def build(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / "minigrad" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "minigrad"


@pytest.mark.parametrize("rule, files", [(rule, files) for rule, broken in RULES.items() for files in broken])
def test_a_counter_example_is_found(rule, files, tmp_path):
    assert list(rule(build(tmp_path, files)))


def test_a_sound_package_breaks_no_rule(tmp_path):
    files = {"op.py": '"""Ops."""\nfrom minigrad import tape', "tape.py": "", "nn/a.py": "from minigrad.op import Op"}
    sound = build(tmp_path, {**files, **MANY, "nn/sub/a.py": "", "lab/show/a.py": "import matplotlib"})
    broken = {rule.__name__: found for rule in RULES if rule is not large_core and (found := list(rule(sound)))}
    assert not broken


# Rules that the package does not keep yet; nothing may be added.


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps(rule):
    breaches = list(rule(PACKAGE))
    assert not breaches, "\n".join(breaches)
