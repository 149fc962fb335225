"""What somebody who comes from Python may have meant, where a C++ compiler refuses it."""

import re

_FIRST = re.compile(r"^\S[^\n(]*\(\d+\): error: (.*)(?:\n    (.*))?$", re.M)
# What the compiler says (g++, Clang or nvcc), what stands in the line, and what to write. The first that fits is told.
_HINTS = (
    ("directive", r"^#", "A comment begins with //."),
    ("", r"\b(np|numpy|math)\.", "There is no NumPy here, but expf, logf, sqrtf, powf, fabsf, fminf and fmaxf."),
    ("", r"\*\*|\^", "There is no power operator: write x * x, or powf(x, 3.0f)."),
    ("", r"\blen\(", "An array comes as a bare address, without its length: the length is an argument of its own."),
    ("", r"\bfor\b.*\bin\b", "A loop is for (int i = 0; i < n; ++i) { ... }."),
    ("", r"=.*\bif\b.*\belse\b", "Python's `a if condition else b` is `condition ? a : b`."),
    ("", r"^(if|while)\b(?!\s*\()",
     "A condition stands in brackets, and what depends on it in braces: if (i < n) { ... }."),
    ("", r"\b(None|True|False)\b", "In C++ they are true and false, and 0 for nothing."),
    ("", r"\bprint\(", 'What prints is printf("%d %f\\n", i, x).'),
    ("", r"\bsyncthreads\b(?<!__syncthreads)", "It has two underscores in front: __syncthreads()."),
    ("", r"\batomic\w+\((?!\s*&)\w+\[", "Atomics take the address of an element: atomicAdd(&y[i], value)."),
    ("uint3|dim3", "", "It has parts, one for each axis: threadIdx.x, blockIdx.x."),
    ("redeclar|redefin|already been declared", r"^(int|unsigned|float|double|real|bool)\s+\w+\s*[=;]",
     "It has been declared above: without the type, the line sets it anew."),
    ("declare|undefined", r"^\w+\s*=[^=]", "A new variable begins with its type: int i = ..., or float sum = ..."),
    ("subscript|pointer-to-object", "",
     "An array is flat, and has one index: element (row, column) is x[row * columns + column]."),
    ("ambiguous|more than one instance", "",
     "The two are of different types. Write 0.0f for a float, and real(0) for a real."),
    ("read-only|modifiable lvalue", "", "An array with `const` is to be read. Write to the one without."),
    ("return", r"\breturn\b", "A kernel returns nothing: it writes what it has made to an array."),
    ("expected (a )?['\"]}", "", "A brace that was opened is not closed."),
    ("expected", r"=[^;]*\w\s*//\s*[\w(]",
     "What is behind // is a comment. Two whole numbers divide by / to a whole number."),
    ("expected (',' or |a )?['\"];", "",
     "Each statement ends with a semicolon: look at the end of this line, and of the one before."),
)  # fmt: skip


def meant(error: str) -> str:
    """A line to go below the compiler's words, about the first error; empty where none fits."""
    found = _FIRST.search(error)
    if not found:
        return ""
    words, line = found.groups("")
    fits = (said for says, has, said in _HINTS if re.search(says, words) and re.search(has, line.strip()))
    said = next(fits, "")
    return f"\n{said}" if said else ""
