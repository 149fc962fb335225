"""What a notebook shows of an error: the reader's lines and the sentence, and of other packages everything."""

import re

import pytest
from IPython.core.interactiveshell import InteractiveShell

import minigrad as mg


@pytest.fixture
def shown(capsys):
    shell = InteractiveShell()
    mg.load_ipython_extension(shell)
    shell.user_ns["mg"] = mg

    def run(cell):
        shell.run_cell(cell)
        return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)

    yield run
    shell.history_manager.end_session()


def test_a_refusal_ends_in_the_readers_own_line(shown):
    text = shown("def mine():\n    return mg.ones(3) + mg.ones(4)\n\nmine()")
    assert "----> 4 mine()" in text and "----> 2     return mg.ones(3) + mg.ones(4)" in text
    assert text.rstrip().endswith("reshape one of them.") and "operators.py" not in text
    assert "operators.py" in shown("%tb")


def test_what_another_package_raises_is_shown_whole(shown):
    text = shown("import json\njson.loads('[')")
    assert "decoder.py" in text and "JSONDecodeError" in text
    text = shown("mg.fuse(lambda x: 1 / 0)")
    assert "<lambda>" in text and "fusion" in text and "ZeroDivisionError" in text, "the reader's own function raised"


def test_deep_recursion_and_broken_syntax_are_shown_as_ever(shown):
    assert "maximum recursion depth" in shown("def f(n): return f(n + 1)\nf(0)")
    assert "SyntaxError" in shown("exec('x = = 1')")
    assert shown("print(1 + 1)") == "2\n"


def test_a_handler_that_was_there_stays():
    shell = InteractiveShell()
    seen = []
    shell.set_custom_exc((ValueError,), lambda shell, kind, error, trace, tb_offset=None: seen.append(error))
    mg.load_ipython_extension(shell)
    shell.run_cell("raise ValueError('mine')")
    shell.history_manager.end_session()
    assert [str(error) for error in seen] == ["mine"]
