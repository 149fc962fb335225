"""The words of the course: none is used before the notebook that introduces it, and there its first use is in bold."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

import minigrad as mg
from minigrad.lab.words import Word, course

FOLDER = Path(__file__).parents[2] / "notebooks"
COURSE = {path.name.partition("_")[0]: path for path in sorted(FOLDER.glob("[0-9]*.ipynb"))}
SKIPPED = re.compile(
    r"```.*?```|`[^`]*`"  # code
    r"|\$\$.*?\$\$|\$[^$\n]*\$"  # formulas
    r"|^\| \[[^\n]*$"  # a row of the table of notebooks, which looks ahead
    r"|\[[^\]]*\]\([^)]*\)|<[^>]*>",  # links and HTML
    re.S | re.M,
)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
BOLD = re.compile(r"\*\*[^*]+\*\*")


class Piece(NamedTuple):
    """A heading, a paragraph or a task of an exercise: where it stands, its prose, and the pieces of code in it."""

    shown: str
    text: str
    code: tuple[str, ...] = ()
    heading: bool = False
    task: bool = False


def pieces(notebook: nbformat.NotebookNode) -> Iterator[Piece]:
    """The prose of a notebook in its order: its Markdown, and the tasks of its exercises."""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            for line in SKIPPED.sub(" ", cell.source).split("\n"):
                yield Piece(f"[{number}]", line, heading=line.startswith("#"))
            yield Piece(f"[{number}]", "", tuple(CODE.findall(cell.source)))
        for output in cell.get("outputs", ()):
            task = output.get("data", {}).get("text/markdown", "")
            yield Piece(f"[{number}]", SKIPPED.sub(" ", "".join(task)).replace("\n", " "), task=True)


def uses(text: str, words: list[Word]) -> Iterator[tuple[Word, re.Match]]:
    """Each use of a word. A part of a longer word is not a use: "bank" in "bank conflict"."""
    for word in sorted(words, key=lambda word: -len(word.name)) if text else ():
        if word.pattern.search(text):  # which few are
            for match in word.pattern.finditer(text):
                yield word, match
            text = word.pattern.sub(lambda match: " " * len(match[0]), text)


def in_bold(match: re.Match, text: str) -> bool:
    return any(bold.start() <= match.start() and match.end() <= bold.end() for bold in BOLD.finditer(text))


def first_code(prose: dict[str, list[Piece]], word: Word) -> str:
    """The first notebook with this piece of code in its prose."""
    found = (number for number, read in prose.items() for piece in read if any(map(word.pattern.search, piece.code)))
    return next(found, "")


def faults(prose: dict[str, list[Piece]], words: list[Word]) -> Iterator[str]:
    """Words that are used too early, and those without a first use in bold where they are introduced."""
    for word in words:
        if word.code and (first := first_code(prose, word)) != word.notebook:
            yield f"{first or 'no notebook'} is the first with `{word.name}`, and {word.notebook} introduces it"
    words = [word for word in words if not word.code]
    order = {number: place for place, number in enumerate(prose)}
    yield from (f"{word.name}: there is no notebook {word.notebook}" for word in words if word.notebook not in order)
    introduced = set()
    for number, found in prose.items():
        early = dict[str, str]()
        for piece in found:
            known = [word for word in words if word.notebook in order]
            for word, match in sorted(uses(piece.text, known), key=lambda use: use[1].start()):
                context = piece.text[max(0, match.start() - 30) : match.end() + 30].strip()
                if order[word.notebook] > order[number]:
                    early.setdefault(
                        word.name, f"{number} {piece.shown} has {word.name!r} of {word.notebook}: {context}"
                    )
                elif word.notebook == number and word not in introduced and not piece.heading and not piece.task:
                    introduced.add(word)
                    if not in_bold(match, piece.text):
                        yield f"{number} {piece.shown} first has {word.name!r} without bold: {context}"
        yield from early.values()
    for word in words:
        if word.notebook in order and word not in introduced:
            yield f"{word.notebook} does not introduce {word.name!r}"


@cache
def read() -> dict[str, list[Piece]]:
    return {number: list(pieces(nbformat.read(path, as_version=4))) for number, path in COURSE.items()}


def test_no_word_is_used_before_it_is_explained():
    found = list(faults(read(), list(course().values())))
    assert not found, f"{len(found)} faults:\n" + "\n".join(found)


# --- the test above finds what it is for ---


def word(name, notebook, uses=""):
    return Word(name, notebook, "Its meaning.", uses or f"{name}s?")


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("Two sectors.", "A **sector** is small.", "0 [0] has 'sector' of 1: Two sectors."),
        ("# A sector costs", "A **sector**.", "0 [0] has 'sector' of 1: # A sector costs"),
        ("", "A sector, or **sector**.", "1 [0] first has 'sector' without bold: A sector, or **sector**."),
        ("", "Nothing. `sector`", "1 does not introduce 'sector'"),
        ("", "# The **sector**", "1 does not introduce 'sector'"),
        ("", "A **bank conflict**. A **sector**.", "1 does not introduce 'bank'"),
        ("`sector` $sector$ [sector](1_x.ipynb)\n| [1](a.ipynb) | sector |", "# The sector\nA **sector**, a bank.",
         "1 [0] first has 'bank' without bold: A **sector**, a bank."),
    ],
)  # fmt: skip
def test_a_fault_is_found(first, second, said):
    cells = [[nbformat.v4.new_markdown_cell(text)] for text in (first, second)]
    prose = {str(n): list(pieces(nbformat.v4.new_notebook(cells=found))) for n, found in enumerate(cells)}
    words = [word("sector", "1"), word("bank", "1"), word("bank conflict", "1")]
    assert said in list(faults(prose, words))


@pytest.mark.parametrize(("texts", "said"), [(("", "`x >> 1`"), []), (("`x >> 1`", "`>>`"), ["0"]), (("", ""), ["no"])])
def test_code_is_looked_for_where_it_stands(texts, said):
    cells = [[nbformat.v4.new_markdown_cell(text)] for text in texts]
    prose = {str(n): list(pieces(nbformat.v4.new_notebook(cells=found))) for n, found in enumerate(cells)}
    assert [fault.split()[0] for fault in faults(prose, [word(">>", "1", "`[^>]*>>[^>]*`")])] == said


def test_a_course_without_faults_has_none():
    sound = "A **sector**.\n```\nbank\n```\nA **bank** has sectors. A **bank conflict** of banks."
    prose = {"0": [Piece("[0]", "All is well.")], "1": [Piece("[0]", SKIPPED.sub(" ", sound))]}
    assert not list(faults(prose, [word("sector", "1"), word("bank", "1"), word("bank conflict", "1")]))


def test_a_task_counts_as_prose_but_introduces_nothing():
    task = nbformat.v4.new_code_cell("mg.exercise('a')")
    task.outputs = [nbformat.v4.new_output("execute_result", {"text/markdown": "A sector\nof **sectors**"})]
    prose = {str(n): list(pieces(nbformat.v4.new_notebook(cells=[task]))) for n in (0, 1)}
    found = list(faults(prose, [word("sector", "1")]))
    assert found == ["0 [0] has 'sector' of 1: A sector of **sectors**", "1 does not introduce 'sector'"]


# --- what a reader calls ---


def test_a_word_is_found_by_any_spelling():
    assert mg.word("sector") is mg.word("Sectors") is mg.word(" sector ")
    assert repr(mg.word("sector")).startswith("sector (notebook 04): 32 neighboring bytes")
    assert mg.word("SM").name == "multiprocessor" and mg.word("launched").name == "launch"
    assert '<a href="04_transpose.ipynb">notebook 04</a>' in mg.word("sector")._repr_html_()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("secter", r"'secter' is not a word of the course; did you mean sector"),
        ("conflict", r"did you mean bank conflict\? mg\.word\(\) lists them"),
        ("xyzzy", r"'xyzzy' is not a word of the course; mg\.word\(\) lists them"),
    ],
)
def test_an_unknown_word_gets_a_sentence(name, said):
    with pytest.raises(ValueError, match=said):
        mg.word(name)


def test_a_word_is_text():
    with pytest.raises(TypeError, match=r"mg\.word takes a word of the course; got int 3"):
        mg.word(3)


def test_all_words_are_a_table():
    words = mg.word()
    names = [each.name for each in words]
    assert names == sorted(names, key=str.lower) and set(names) == set(course())
    assert len(repr(words).splitlines()) == len(names) + 1 and words._repr_html_().count("<tr>") == len(names) + 1


@pytest.mark.parametrize("each", course().values(), ids=lambda each: each.name)
def test_a_word_has_one_meaning_that_reads_well(each):
    assert each.meaning.endswith(".") and len(each.meaning.split()) <= 40
    if each.code:
        return
    assert each.pattern.fullmatch(each.name), "the word itself is a use of it"
    others = [
        other.name
        for other in course().values()
        if other is not each and not other.code and other.pattern.fullmatch(each.name)
    ]
    assert not others, "no other word has this spelling"
