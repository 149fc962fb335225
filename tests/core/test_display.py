"""Tables and highlighted code: the same cells and lines in every form."""

import re
import xml.etree.ElementTree as ET
from html import unescape

import pytest

import minigrad as mg
from minigrad.display import STYLES


def test_a_table_has_the_same_cells_in_both_forms():
    shown = mg.show.table([("relu", 1), ("a < b", 22.123456)], ("op", "ms"))
    assert repr(shown).splitlines() == ["op        ms", "relu       1", "a < b  22.12"]
    html = shown._repr_html_()
    assert [unescape(c) for c in re.findall(r">([^<>]+)</t[hd]>", html)] == ["op", "ms", "relu", "1", "a < b", "22.12"]
    ET.fromstring(html)
    with pytest.raises(ValueError, match="row 1 has 1 cells; there are 2 columns"):
        mg.show.table([(1, 2), (3,)])


@pytest.mark.parametrize("file", ["relu.cu", "matmul.cu", "sum.cu"])
def test_highlighted_code_is_the_code_with_its_line_numbers(file):
    text = mg.relu["forward"].source.read(file).text
    html = mg.show.highlight(text, 7, f"cuda/{file}")
    root = ET.fromstring(html)
    assert root[0].text == f"cuda/{file}:7" and html == mg.show.highlight(text, 7, f"cuda/{file}")
    lines = "".join(root[1].itertext()).split("\n")
    assert [re.match(r" *(\d+)  (.*)", line).groups() for line in lines] == [
        (str(number), line) for number, line in enumerate(text.split("\n"), 7)
    ]


def test_code_is_coloured_by_what_it_is():
    html = mg.show.highlight('// [load tile]\nint i = 1; /* a\n"b" */ __syncthreads(); x[threadIdx.x] = "s < t";')
    styles = {unescape(text): style for style, text in re.findall(r'<span style="([^"]*)">([^<]*)</span>', html)}
    wanted = {"// [load tile]": "mark", "int": "keyword", "1": "number", "/* a": "comment", '"b" */': "comment"}
    wanted |= {"__syncthreads": "cuda", "threadIdx": "cuda", '"s < t"': "string"}
    assert {text: styles.get(text) for text in wanted} == {text: STYLES[kind] for text, kind in wanted.items()}
