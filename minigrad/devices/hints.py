"""Hints for Python programmers, appended to C++ compile errors."""

import re
from collections.abc import Container

_FIRST = re.compile(r"^\S[^\n(]*\(\d+\): error: (.*)(?:\n    (.*))?$", re.M)
# A name of half precision.
_HALF = r"(?:_*half2?|__\w*half\w*|__h[a-z]+2?\w*|h2?(?:exp|log|sin|cos|r?sqrt|rcp|tanh)\w*)"
# A pattern in the message (of g++, Clang or nvcc), a pattern in the source line, and the hint. The first match counts.
_HINTS = (
    (r"bfloat16\W+(is undefined|has not|was not|does not name)|unknown type name 'bfloat16'|declared void", r"\breal\b",
     '`real` is bfloat16 here, which #include "common.cuh" at the top of the text declares.'),
    (r"(?:nv_|2|'__)bfloat16", "", "It is in a header: write #include <cuda_bf16.h> at the top."),
    ("bfloat16", "",
     "`real` is bfloat16 here, a type of memory alone: a number that is computed, a sum above all, is a `wide`, which "
     "is float for it; and 0 is real(0) next to an element, after ? or :."),
    (rf"['\"]{_HALF}['\"].*(?:declare|undefined)|undeclared identifier '{_HALF}'", "",
     "Half precision is in a header: write #include <cuda_fp16.h> at the top."),
    (r"extended character|\\U|[Uu]nicode|<U\+|unrecognized token", r"[^\x00-\x7f]",
     "The line has a sign that only looks like one of C++, as quotes and spaces of a web page do: type it again."),
    ("directive", r"^#", "A comment begins with //."),
    ("", r"\b(np|numpy|math)\.", "NumPy is not available here; use expf, logf, sqrtf, powf, fabsf, fminf and fmaxf."),
    ("", r"\*\*", "There is no power operator: write x * x, or powf(x, 3.0f)."),
    (r"operator ?\^|invalid operands|integral", r"\^", "There is no power operator: write x * x, or powf(x, 3.0f)."),
    ("", r"\blen\(", "An array comes as a bare address, without its length: pass the length as another argument."),
    ("", r"\bfor\b.*\bin\b", "A loop is for (int i = 0; i < n; ++i) { ... }."),
    ("", r"=[^;{}]*\bif\b[^;{}]*\belse\b", "Python's `a if condition else b` is `condition ? a : b`."),
    ("", r"^(if|while)\b(?!\s*\()",
     "A condition stands in parentheses, and the statements that depend on it in braces: if (i < n) { ... }."),
    ("", r"\b(None|True|False)\b", "In C++ they are true and false, and 0 for None."),
    ("", r"\bprint\(", 'To print, write printf("%d %f\\n", i, x).'),
    ("", r"\bsyncthreads\b(?<!__syncthreads)", "It has two underscores in front: __syncthreads()."),
    ("", r"\batomic\w+\((?!\s*&)\w+\[", "Atomics take the address of an element: atomicAdd(&y[i], value)."),
    ("uint3|dim3", "", "It has parts, one for each axis: threadIdx.x, blockIdx.x."),
    ("redeclar|redefin|already been declared", r"^(int|unsigned|float|double|real|bool)\s+\w+\s*[=;]",
     "It has been declared above: without the type, the line assigns a new value."),
    (r"\bBLOCK\b.*(declare|undefined)|undeclared identifier 'BLOCK'", "",
     "The compiler is given no BLOCK here. blockDim.x is the number of threads of a block."),
    ("literal operator|digit 'f'|user-defined literal", r"\b\d+f\b", "A float has a decimal point: 1.0f."),
    ("declare|undefined", r"^\w+\s*=[^=]", "A new variable begins with its type: int i = ..., or float sum = ..."),
    (r"\*\[(float|double)\]|subscript is not an integer", "", "An index is a whole number: x[(int)v]."),
    ("subscript|pointer-to-object", r"\]\s*\[",
     "An array is flat, and has one index: element (row, column) is x[row * columns + column]."),
    ("subscript|pointer-to-object", "",
     "A number has no elements. An array comes as a pointer: const float* x, of which x[i] is an element."),
    ("ambiguous|more than one instance", "",
     "The two are of different types. Write 0.0f for a float, and real(0) for a real."),
    (r"operands\b.*(?<!operator)\*['\")]|(convert|incompatible type|of type) ['\"][^'\"]*\*['\"]( to | cannot|$)[^*]*$",
     "", "The name of an array alone is its address: an element is x[i]."),
    ("read-only|modifiable lvalue", "", "An array with `const` is read-only. Write to the one without."),
    ("return", r"\breturn\b", "A kernel returns nothing: it writes its results to an array."),
    ("expected (a )?['\"]}", "", "A brace that was opened is not closed."),
    ("expected", r"=[^;]*\w\s*//\s*[\w(]",
     "Text after // is a comment. Divide with /: two whole numbers give a whole number."),
    ("expected (',' or |a )?['\"];", "",
     "Each statement ends with a semicolon: look at the end of this line, and of the one before."),
)  # fmt: skip


def hint(error: str, host: Container[str] = ()) -> str:
    """A line to append to a compiler's message, about its first error; empty if no hint fits.

    host: the names of functions that were left out, as only the host can call them.
    """
    found = _FIRST.search(error)
    if not found:
        return ""
    message, line = found.groups("")
    called = set(re.findall(r"\w+(?=\()", line)) & set(re.findall(r"\w+", message))
    if name := next((name for name in called if name in host), ""):
        return f"\n{name} is a function of the host. For a kernel to call it, write __device__ in front of it."
    fits = (f"\n{text}" for says, has, text in _HINTS if re.search(says, message) and re.search(has, line.strip()))
    return next(fits, "")
