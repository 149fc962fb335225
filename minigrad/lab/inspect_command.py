"""`minigrad inspect file.cu --kernel name --grid 4 --block 256 --arg x=float32:1000:randn --arg n=1000`."""

import argparse
import json
import re
import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.errors import CompileError, DeviceError, LaunchError, require_int, require_number
from minigrad.kernels.source_kernel import kernel as compiled
from minigrad.lab.inspect_values import Values
from minigrad.microscope import inspect

# The options for arguments of a call, which sentences name as `shared=`.
OPTIONS = {"name": "kernel", "outputs": "output"}
CALLS = {"mg.kernel(..., cooperative=True)": "--cooperative", "get('sim').timeout of minigrad.devices": "--timeout"}
ARGUMENT = re.compile(r"\b(grid|blocks?|shared|name|outputs|cooperative)=(?=([^\s,.;:)])?)")
WRONG = (ValueError, TypeError, ImportError, OSError, MemoryError, DeviceError, CompileError, LaunchError)
EPILOG = """VALUE is a number, true, false, several numbers as 1,2,3 for a vector, null, the path of a .npy file, or
DTYPE:SHAPE:FILL, as float32:1000:randn, int8:4x4:range or uint8:64, where FILL is zeros, ones, range, randn, rand or
empty, by default zeros; rand are numbers from 0 to 1, or whole ones below the number of elements, and rand:64 whole
ones below 64; empty is undefined memory, which the kernel must write before it reads. A struct is given by its members,
as --arg p.dt=0.1 --arg p.x=float32:1000:randn; those without a value have the text's, or 0. An array of structs is
struct:SHAPE:FILL, as --arg ps=struct:1000:randn, of which --arg ps.mass=1 sets a member. A __constant__ or __device__
variable is set by --constant table=float32:64:randn. Exit status: 0 nothing found but what is harmless, 1 a problem, 2
the file or the arguments do not fit."""


def add_to(commands: Any) -> None:
    """Add the command to those of `minigrad`."""
    parser = commands.add_parser(
        "inspect", help="run a kernel of a .cu file under the microscope; needs no GPU", epilog=EPILOG
    )
    parser.add_argument("file", metavar="FILE.cu")
    parser.add_argument("--kernel", metavar="NAME", help="its name, a template with its arguments: 'sgemm<64, 8>'")
    parser.add_argument("--grid", help="blocks, as 4 or 4,2")
    parser.add_argument("--block", help="threads of a block, as 256 or 16,16")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="each parameter's value")
    parser.add_argument(
        "--constant", action="append", default=[], metavar="NAME=VALUE", help="a __constant__ or __device__ variable"
    )
    parser.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory (%(default)s)")
    parser.add_argument("--define", action="append", default=[], metavar="NAME[=VALUE]", help="a macro")
    parser.add_argument("--output", action="append", default=[], metavar="NAME", help="must be written whole, no NaN")
    parser.add_argument("--cooperative", action="store_true", help="all blocks run at once, as for grid.sync()")
    parser.add_argument(
        "--blocks", type=int, default=1, help="whose accesses are counted; all are checked (%(default)s)"
    )
    parser.add_argument("--timeout", type=float, default=20, metavar="SECONDS", help="for the kernel (%(default)g)")
    parser.add_argument("--seed", type=int, default=0, help="of random numbers (%(default)s)")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="print problems and counts as JSON, or write them there"
    )


def run(options: argparse.Namespace) -> int:
    """Print the record. Returns 0, 1 if there is a problem that does harm, or 2 if nothing could be inspected."""
    warnings.showwarning = lambda message, *_: _tell(str(message))
    try:
        record = _record(options)
        record.problems[:] = [replace(each, message=_with_options(each.message)) for each in record.problems]
        rows = {"kernel": record.kernel, "problems": [asdict(each) for each in record.problems]}
        rows["lines"] = [asdict(each) for each in record.lines] if record.counted else None
        text = json.dumps(rows, indent=1, default=_plain)
        if options.json and options.json != "-":
            Path(options.json).write_text(text + "\n", encoding="utf-8")
        print(text if options.json == "-" else record)
    except WRONG as error:
        why = f"{error.filename}: {error.strerror}." if isinstance(error, OSError) and error.filename else str(error)
        _tell(why, isinstance(error, CompileError))
        return 2
    return int(any(not problem.harmless for problem in record.problems))


def _record(options: argparse.Namespace) -> Any:
    require_int("the command", "--seed", options.seed)
    require_number("the command", "--timeout", options.timeout)
    path = Path(options.file)
    if not path.is_file():
        raise ValueError(f"there is no file {options.file}; give the path of a .cu file.")
    macros = (each if "=" in each else f"{each}=1" for each in options.define)  # as compilers read -D
    kernel = compiled(path, options.kernel, dict(map(_pair, macros)), options.cooperative)
    kernel.check_types()
    launch = {name: _extent(name, text) for name in ("grid", "block") if (text := getattr(options, name)) is not None}
    values = Values(kernel, launch, dict(map(_pair, options.arg)), options.seed)
    args = [values.of(param) for param in values.params]
    for name, text in map(_pair, options.constant):
        kernel.constant(name, values.of_constant(name, text))
    simulator: Any = get(check("sim"))
    simulator.timeout = options.timeout
    given = {"shared": options.shared, "blocks": options.blocks, "outputs": options.output}
    return inspect(kernel, *args, grid=launch["grid"], block=launch["block"], **given)


def _tell(sentence: str, of_compiler: bool = False) -> None:
    print(f"minigrad inspect: {sentence if of_compiler else _with_options(sentence)}", file=sys.stderr)


def _with_options(sentence: str) -> str:
    """The sentence with the options of the command line for the arguments of a call."""
    sentence = re.sub(r"\.constant\('(\w+)', \.\.\.\)\.", r"--constant \1=...", sentence)
    for call, option in CALLS.items():
        sentence = sentence.replace(call, option)
    return ARGUMENT.sub(lambda found: f"--{OPTIONS.get(found[1], found[1])}{' ' * bool(found[2])}", sentence)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (sign and all(part.isidentifier() for part in name.strip().split("."))):
        raise ValueError(f"{text!r} is no NAME=VALUE, as x=float32:1000:randn or n=1000.")
    return name.strip(), value.strip()


def _extent(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, re.split("[x,]", text)))
    except ValueError:
        raise ValueError(f"--{name} {text} is no extent; write 4, or 4,2 for two axes.") from None


def _plain(value: Any) -> Any:
    """JSON for NumPy's numbers; the rest as text."""
    return value.item() if isinstance(value, np.generic) else str(value)
