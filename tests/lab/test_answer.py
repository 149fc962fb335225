"""The answers to exercises: right is right, and every way of being wrong is named."""

import re

import numpy as np
import pytest

from minigrad.lab.check.answer import Answer, answer

ONE = (np.array([1.0, 2.0, 3.0, 4.0, 5.0]),)


def raising(x):
    raise IndexError("out of reach")


def test_right_is_right():
    assert answer(lambda x: x * 2, lambda x: 2 * x, ONE, ([1.0, 2.0],)).correct


@pytest.mark.parametrize(
    ("mine", "text"),
    [
        (lambda x: x * 3, "element 0 is 3, wanted 2"),
        (lambda x: x[:2], r"shape is \(2,\), wanted \(5,\)"),
        (lambda x: np.where(x == 4, np.nan, 2 * x), "element 3 is nan, wanted 8"),
        (raising, "it raised IndexError: out of reach"),
        (lambda x: None, "it returns None: a `return` is missing"),
        (lambda x: 2 * x[0], "it gives one number, wanted 5"),
        (lambda x: np.array(list("abcde")), "wanted numbers"),
    ],
)
def test_wrong_is_named(mine, text):
    found = answer(mine, lambda x: 2 * x, ONE)
    assert not found.correct
    assert re.search(text, repr(found))


def test_a_case_without_arguments():
    assert repr(answer(lambda: 0.5, lambda: 1, ())) == "Not yet: the result is 0.5, wanted 1."


def test_numbers_that_are_close_are_told_apart():
    found = answer(lambda: 1e6 + 100, lambda: 1e6 + 0.25, ())
    assert found.text == "Not yet: the result is 1.0001e+06, wanted 1e+06."
    found = answer(lambda: 12345678.0 * (1 + 2e-5), lambda: 12345678.0, ())
    assert len(set(re.findall(r"1\.234\d+e\+07", found.text))) == 2


def test_without_cases_there_is_no_answer():
    with pytest.raises(ValueError, match="at least one case"):
        answer(abs, abs)


def test_a_long_answer_is_broken_between_words_and_what_it_quotes_is_not():
    words, quoted = "Nothing orders the two, so the result depends on chance. " * 3, f"    line 5: {'y[0] += x; ' * 11}"
    lines = repr(Answer(False, f"{words}\n{quoted}\nA hint")).splitlines()
    assert max(map(len, lines[:2])) <= 106 and " ".join(lines[:2]) == words.strip() and lines[2:] == [quoted, "A hint"]
