"""Indices in CUDA C++ that may become statements of their own, and columns of the translated text."""

import pytest

from minigrad.scan import blank
from minigrad.simulator.indices import indices
from minigrad.simulator.translate import Change, change, column

# <> marks the indices.
MARKED = [
    "s[<p[<i>]>] += x[<i>];",
    "if (a > s[<i>]) return x[<i>]; else x[<i>] = 1;",
    "float a[n], b[m] = {x[<i>], y[<j>]}, c = x[<i>];",
    "x[<i>] = 1, y[<p[<i>]>] = 2;",
    "q.a[<i>][<j>] = this->v[<i>] + (*r)[<i>] + T[N] + x[3];",
    "float (*r)[n] = rows(s), *e[8], f[N + 1];",
    "auto f = [&x](int i) { return x[<i>]; };",
    "auto [a, b] = pairs[<i>];",
    "assert(x[i] > 0); decltype(x[i]) v = x[<i>];",
    "y.at[lane] = f(loaded.at[lane]...);",
    "m[i, j] = m[{i, j}];",
    "struct Q { float v[n], w[n]; int at(int i) { return v[<i>]; } };",
]


@pytest.mark.parametrize("text", MARKED)
def test_indices_are_told_from_extents(text):
    code = text.replace("[<", "[").replace(">]", "]")
    spans = sorted((at, mark) for span in indices(f"void k() {{{code}}}") for at, mark in zip(span, "<>", strict=True))
    marked = code
    for at, mark in reversed(spans):
        marked = marked[: at - 10] + mark + marked[at - 10 :]
    assert marked == text


def test_macros_have_indices_and_what_is_outside_functions_has_none():
    code = blank("#define AT(r, c) s[(r) * LD + c]  // x[i]\nnamespace a { __device__ int t[n], u = t[k]; }")
    assert [code[start:stop] for start, stop in indices(code)] == ["(r) * LD + c"]


def test_a_column_is_that_of_the_reader():
    changes = [Change(2, 0, 10), Change(3, 0, 5)]  # s[ and 10 signs, i and 5, ]
    assert [column(changes, at) for at in (1, 2, 3, 5, 13, 14, 16, 19)] == [1, 2, 3, 3, 3, 4, 4, 4]


@pytest.mark.parametrize("text", ["a; bc; d[i];", "a;\nbc; d[i];", "a; b\nc; d[i];", "ä; bc; d[i];"])
def test_the_columns_behind_what_was_replaced_are_the_readers(text):
    start = text.index("b")
    stop, made = text.index(";", start) + 1, "much longer, ö;" + "\n" * text.count("\n", start)
    line, compiled = (
        (text[:at] + rest).split("\n")[-1].encode() for at, rest in ((stop, " d[i];"), (start, made + " d[i];"))
    )
    found = column([change(text, start, stop, made)], compiled.index(b"d") + 1)
    assert found == line.index(b"d") + 1
