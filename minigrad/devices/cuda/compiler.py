"""Compile CUDA C++ for one GPU: by nvcc, or where there is none by NVRTC, the compiler as a library."""

import re
import subprocess
from collections.abc import Container, Mapping
from functools import cache, partial
from pathlib import Path

from minigrad.devices import caches
from minigrad.devices.cuda.toolkit import find_nvcc, headers_without_nvcc, output
from minigrad.devices.device import MAX_SHARED
from minigrad.devices.hints import hint
from minigrad.devices.leave_out import RejectedText, Rejection, build_without
from minigrad.devices.unit import header, headers, unit, units_of_headers
from minigrad.errors import CompileError, DeviceError, LaunchError
from minigrad.scan import INCLUDE, asked, blank
from minigrad.source import CUDA, Source

WIDTHS = ("char", 8), ("short", 16), ("int", 32), ("long long", 64)  # as in CUDA's own C++ library
LIMITS = {
    "NAN": "__int_as_float(0x7fffffff)", "INFINITY": "__int_as_float(0x7f800000)",
    "INT_MIN": "(-2147483647 - 1)", "INT_MAX": "2147483647", "UINT_MAX": "4294967295u",
    "FLT_MIN": "1.17549435e-38f", "FLT_MAX": "3.40282347e+38f", "FLT_EPSILON": "1.1920929e-07f",
    "DBL_MIN": "2.2250738585072014e-308", "DBL_MAX": "1.7976931348623157e+308", "DBL_EPSILON": "2.220446049250313e-16",
    "M_E": "2.718281828459045", "M_LOG2E": "1.4426950408889634", "M_LN2": "0.6931471805599453",
    "M_PI": "3.141592653589793", "M_PI_2": "1.5707963267948966", "M_PI_4": "0.7853981633974483",
    "M_1_PI": "0.3183098861837907", "M_2_SQRTPI": "1.1283791670955126", "M_SQRT2": "1.4142135623730951",
    "M_SQRT1_2": "0.7071067811865476",
}  # fmt: skip
STD = ("abs", "ceil", "cos", "exp", "fabs", "floor", "fma", "fmax", "fmin", "fmod", "isfinite", "isinf", "isnan", "log",
       "pow", "ptrdiff_t", "round", "sin", "size_t", "sqrt", "tan", "tanh", "trunc")  # fmt: skip
# Names of C++'s library by its headers, as far as CUDA has them as its own: some of these take NVRTC seconds.
STD_HEADERS = {
    "limits": r"numeric_limits",
    "type_traits": r"(?:is|remove|add)_\w+|make_(?:un)?signed\w*|enable_if\w*|conditional\w*|\w+_constant|true_type|"
                   r"false_type|decay\w*|void_t|common_type\w*|underlying_type\w*|(?:con|dis)junction\w*|negation\w*",
    "utility": r"move|forward|swap|exchange|(?:make_)?pair|declval|(?:make_)?(?:index|integer)_sequence\w*",
    "tuple": r"tuple\w*|tie|make_tuple|get",
    "array": r"array",
    "functional": r"plus|minus|multiplies|divides|negate|less\w*|greater\w*|(?:not_)?equal_to|bit_\w+|logical_\w+",
    "complex": r"complex",
}  # fmt: skip
# The names of C's headers, of which NVRTC has none; nor has it offsetof, so that it checks sizes of members alone.
NVRTC_NAMES = "".join(
    [
        *(f"typedef signed {kind} int{bits}_t; typedef unsigned {kind} uint{bits}_t;\n" for kind, bits in WIDTHS),
        "struct minigrad_anywhere { __device__ constexpr bool operator==(int) const { return true; } };\n",
        "#define __builtin_offsetof(...) minigrad_anywhere()\n",
        "namespace std {\n",
        "template <class T> __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }\n",
        "template <class T> __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }\n",
        *(f"using ::{name};\n" for name in (*STD, *(f"{u}int{bits}_t" for u in ("", "u") for _, bits in WIDTHS))),
        "}\n",
        "typedef unsigned short ushort; typedef unsigned uint; typedef unsigned long ulong;\n",
        "#define register\n#define __linux__ 1\n#define __unix__ 1\n#define _POSIX_VERSION 200809L\n",  # as nvcc's host
        *(f"#define {name} {value}\n" for name, value in LIMITS.items()),
    ]
)
_UNNAMED = re.compile(r"\bnamespace\s*\{")


class WrongGPU(CompileError):
    """A text that rejects this GPU by #error."""


def cubin(source: Source, defines: Mapping[str, str], arch: str) -> bytes:
    """The compiled image, from the disk cache or new. Raises CompileError, or LaunchError: too much shared memory."""
    options = [f"-arch={arch}", "-std=c++17", "-lineinfo"]
    options += [f"-D{name}={value}" for name, value in defines.items()]

    include = [*options, *(f"-I{folder}" for folder in source.folders)]

    def build(folder: Path) -> Path:
        image = folder / "kernel.cubin"

        def compiled(text: Source) -> None:
            if compiler := find_nvcc():
                _nvcc(str(compiler), text, include, image)
            else:
                image.write_bytes(_nvrtc(text, include))

        try:
            build_without(source, compiled)
        except WrongGPU as error:
            raise CompileError(f"{source.name}: {error}. This GPU is {arch}.") from None
        return image

    stem = Path(source.name).stem
    return caches.compiled(stem, ".cubin", (unit(source), source.texts, options, _version()), build).read_bytes()


@cache
def _version() -> str:
    if compiler := find_nvcc():
        return output([compiler, "--version"])
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        return "nvrtc"  # an image of any version will do
    return f"nvrtc {nvrtc.nvrtcVersion()}"


def _nvcc(compiler: str, source: Source, options: list[str], image: Path) -> None:
    file = image.with_suffix(".cu")
    for name, text in {
        file.name: f"#include <cstdint>\n{unit(source)}",
        **units_of_headers(source),
    }.items():  # errors name the reader's files
        (place := file.parent / name).parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    own = [f"-I{file.parent}", "-expt-relaxed-constexpr"]  # as projects that call std::max are built
    command = [compiler, "-cubin", *own, *options, str(file), "-o", str(image)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise explain(source, done.stderr + done.stdout)


def _nvrtc(source: Source, options: list[str]) -> bytes:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise DeviceError(
            "device 'cuda': no nvcc found, and no NVRTC (package cuda-bindings). "
            "python -m minigrad.lab.install_cuda brings one."
        ) from error
    options = [*options, "-default-device", *(f"-I{folder}" for folder in headers_without_nvcc())]
    headers = _headers(source)
    texts, names = ([each.encode() for each in part] for part in (headers.values(), headers))
    body = unit(source)
    names_of_std = _std("\n".join([body, *headers.values()]))
    # The names of an unnamed namespace would be mangled, in spite of their extern "C".
    text = _UNNAMED.sub("inline namespace minigrad_unnamed {", f"{NVRTC_NAMES}{names_of_std}{body}").encode()
    _, program = nvrtc.nvrtcCreateProgram(text, source.name.encode(), len(headers), texts, names)
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        raise explain(source, log.decode().rstrip("\0"))
    image = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, image)
    return image


def _std(text: str) -> str:
    """The names of C++'s library that the text takes, from CUDA's own, as NVRTC has no other."""
    text = blank(text)
    spoken = re.search(r"\busing\s+namespace\s+std\s*;", text)
    wanted = [
        name
        for name, words in STD_HEADERS.items()
        if re.search(rf"\bstd\s*::\s*(?:{words})\b", text) or (spoken and re.search(rf"#\s*include\s*<{name}>", text))
    ]
    asked = (f"#if __has_include(<cuda/std/{name}>)\n#include <cuda/std/{name}>\n#endif\n" for name in wanted)
    return "".join([*asked, "namespace cuda { namespace std {} }\nnamespace std { using namespace cuda::std; }\n"])


def _headers(source: Source) -> dict[str, str]:
    """The included files by their names, the package's own too, without functions of the host: NVRTC takes none."""
    found, seen = units_of_headers(source), set[str]()

    def follow(text: str, here: Path) -> None:
        for each in INCLUDE.finditer(text):
            name = asked(each)
            if name and name not in seen and (path := source.find(name, here)):
                seen.add(name)
                if CUDA in path.parents:
                    found[name] = header(source, path).device_text
                follow(path.read_text(errors="replace"), path.parent)

    for one in source.chain:
        follow(one.text, one.folder)
    return found


def explain(source: Source, log: str) -> Exception:
    """The compiler's log as an exception: its errors alone, each with its source line and at most one hint."""
    if too_much := re.search(r"Entry function '(\w+)' uses too much shared data \(0x([0-9a-f]+)", log):
        return LaunchError(
            f"{too_much[1]}: static shared memory of {int(too_much[2], 16)} bytes; a block may use {MAX_SHARED}. "
            "Choose a smaller tile."
        )
    if rejected := re.search(r'#error(?: directive:)? "(.+)"', log):
        return WrongGPU(rejected[1])
    lines = source.text.splitlines()
    faults = []
    for line in log.splitlines():
        if found := re.match(r"(.+)\((\d+)\): (?:catastrophic )?error: (.*)", line):
            number = int(found[2])
            shown = lines[number - 1].strip() if found[1] == source.name and number <= len(lines) else ""
            faults.append(Rejection(f"{found[1]}({number}): error: {found[3]}\n    {shown}", [(found[1], number)]))
    if not faults:
        return CompileError(log.strip() + hint(log.strip()))
    return RejectedText(
        faults,
        {each.name: each.text for each in [*source.chain, *headers(source)]},
        partial(_shown, host=source.host_names),
    )


def _shown(faults: list[Rejection], host: Container[str]) -> CompileError:
    message = "\n".join(dict.fromkeys(fault.message for fault in faults))
    return CompileError(message + hint(message, host))
