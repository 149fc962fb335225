"""The text that a compiler is given: a reader's file and its headers, less what is not for the GPU."""

import re
from dataclasses import replace
from pathlib import Path

from minigrad.scan import DIRECTIVE, INCLUDE, Edit, apply, asked, between_directives, blank, items
from minigrad.source import CUDA, Source

# Libraries of the host, whose headers NVRTC cannot read.
_HOST_LIBRARY = re.compile(
    r"cu(?:blas|dnn|fft|rand|solver|sparse)|nccl|npp|nvtx|thrust/|cub/(?:cub\.cuh|device/)|cuda\w*_interop|cudaEGL|E?GL/|"
    r"cuda(?:_profiler_api)?\.h"
)
_NO_NVRTC = " && !defined(__CUDACC_RTC__)"
# Their types, which kernels use; an extern "C" may be around the include.
_BROUGHT = (
    '#else\nextern "C++" {\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n}\n'
    "typedef float cufftReal; typedef double cufftDoubleReal; typedef float2 cufftComplex; "
    "typedef double2 cufftDoubleComplex;\n"
)
_NO_SPACE = re.compile(r'\bextern\s*" "(?=\w)')  # `extern "C"__global__`, which C++ reads as one literal
_BRACE = re.compile(r'(?:\bnamespace\b[\w\s:]*|\bextern\s*"[^"]*"\s*)\{|[{}]')  # the first form opens no body
_BRANCH = re.compile(r"[ \t]*#[ \t]*(?:el|endif)")


def unit(source: Source) -> str:
    """The text for a compiler: its lines are numbered from its own first line."""
    return f"{unit(source.before) if source.before else ''}\n{_edited(source, source.folder, source)}"


def units_of_headers(source: Source) -> dict[str, str]:
    """The reader's files that the text includes, by the names under which the unit includes them."""
    made, files = dict[str, str](), {path: header(source, path) for path in _own(source)}
    places = [*((one, one.folder) for one in source.chain), *((one, path.parent) for path, one in files.items())]
    parts = {
        source.find(asked(found), here)
        for one, here in places
        for found in INCLUDE.finditer(one.text)
        if _in_body(one.code, found.start())
    }
    for path, one in files.items():
        if path in parts:  # statements, none of which is host code
            one.__dict__["device_text"] = one.text
        made[_given(path)] = _edited(one, path.parent, source)
    return made


def _in_body(code: str, at: int) -> bool:
    """True within the braces of a function, or of a type, rather than in those of a namespace or of extern "C"."""
    bodies = list[bool]()
    for brace in _BRACE.finditer(code, 0, at):
        if brace[0] != "}":
            bodies.append(brace[0] == "{")
        elif bodies:
            bodies.pop()
    return any(bodies)


def headers(source: Source) -> list[Source]:
    """The reader's files that the text includes."""
    return [header(source, path) for path in _own(source)]


def _own(source: Source) -> list[Path]:
    return [path for path in source.included if CUDA not in path.parents]


def header(source: Source, path: Path) -> Source:
    """An included file as a text of its own, in which the same words make device code."""
    name = path.relative_to(source.folder) if path.is_relative_to(source.folder) else path
    text = path.read_text(errors="replace")
    return replace(source, text=text, name=name.as_posix(), template="", before=None, words=source.device_words)


def _given(path: Path) -> str:
    """The name under which a compiler gets a file: each has its own, and none has that of a compiler's header."""
    return f"reader/{path.as_posix().lstrip('/').replace('..', 'up')}"


def _edited(source: Source, here: Path, root: Source) -> str:
    """The text with the edits for a compiler; its files are those that `root` finds from here."""
    others = alone(source, source.kernel, blank(source.device_text))
    spaces = [(at.end(), at.end(), " ") for at in _NO_SPACE.finditer(source.code)]
    edits = [*source.edits, *others, *_c_names(source), *_includes(source, here, root), *spaces]
    return f'#line 1 "{source.name}"\n{apply(edits, source.device_text)}'


def _includes(source: Source, here: Path, root: Source) -> list[Edit]:
    """A file of the reader's gets its given name; a header of which a compiler may know nothing is asked for."""
    edits, guards = [], False
    for found in INCLUDE.finditer(source.text):
        line = source.text.count("\n", 0, found.start()) + 2
        if "#" not in source.code[slice(*found.span())]:
            continue
        if not (path := root.find(asked(found), here)):
            name = f'"{found["near"]}"' if found["near"] else f"<{found['far']}>"
            host, other = (_NO_NVRTC, _BROUGHT) if _HOST_LIBRARY.match(asked(found)) else ("", "")
            guarded = f'#if __has_include({name}){host}\n{found[0]}\n{other}#endif\n#line {line} "{source.name}"'
            edits.append((*found.span(), guarded))
            guards = True
        elif CUDA not in path.parents:
            edits.append((*found.span(), f'#include "{_given(path)}"'))
    return edits + (numbered(source.code, source.name) if guards else [])


def _c_names(source: Source) -> list[Edit]:
    """extern "C" ahead of each kernel that lacks it: a GPU's driver finds it by its name."""
    edits, others = [], source.others(source.kernel)
    for item in items(source.code):
        at = None if item in others else source.c_name_at(item)
        if at is not None:
            words = re.finditer(r"\b(?:static|inline)\b", source.code[at : item.body])
            edits += [(at, at, 'extern "C" '), *((at + w.start(), at + w.end(), "") for w in words)]
    return edits


def alone(source: Source, kernel: str, code: str) -> list[Edit]:
    """The kernels but for this one give way to their directives; "": all stay. code: the text without comments."""
    parts = (part for item in source.others(kernel) for part in between_directives(code, item))
    return [(a, b, "\n" * code.count("\n", a, b)) for a, b in parts]


def numbered(code: str, name: str) -> list[Edit]:
    """#line behind each branch of `#if`: one in a branch that is not compiled has no effect behind it."""
    ends = [each.end() for each in DIRECTIVE.finditer(code) if _BRANCH.match(each[0])]
    return [(end, end, f'\n#line {code.count(chr(10), 0, end) + 2} "{name}"') for end in ends]
