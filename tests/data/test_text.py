"""Text as numbers and back, the text that comes with the package, and digits to be sorted."""

import hashlib

import numpy as np
import pytest

import minigrad as mg
from minigrad.data import ByteTokenizer, CharTokenizer


def test_characters_have_numbers_in_their_order():
    tokenizer = CharTokenizer("banana bread")
    assert (tokenizer.characters, len(tokenizer), repr(tokenizer)) == (" abdenr", 7, "CharTokenizer of 7 characters")
    np.testing.assert_array_equal(tokenizer.encode("bed "), [2, 4, 3, 0])
    assert tokenizer.encode("bed ").dtype == tokenizer.encode("").dtype == np.int64


@pytest.mark.parametrize("tokenizer", [CharTokenizer("naïve 大 text\n"), ByteTokenizer()], ids=repr)
@pytest.mark.parametrize("text", ["", "e", "naïve", "大大 t\n"])
def test_a_text_comes_back(tokenizer, text):
    numbers = tokenizer.encode(text)
    assert ((numbers >= 0) & (numbers < len(tokenizer))).all()
    assert tokenizer.decode(numbers) == tokenizer.decode(numbers.tolist()) == text
    assert tokenizer.decode(mg.tensor(numbers)) == text


def test_bytes_know_every_text_and_a_cut_character_is_marked():
    numbers = ByteTokenizer().encode("aé")
    np.testing.assert_array_equal(numbers, [97, 0xC3, 0xA9])
    assert ByteTokenizer().decode(numbers[:2]) == "a\ufffd"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: CharTokenizer(5), TypeError, "CharTokenizer takes a text; got int 5"),
        (lambda: CharTokenizer("abc").encode("abXc"), ValueError, "encode: 'X' at place 2 is none of the 3 characters"),
        (lambda: CharTokenizer("abc").encode("\n"), ValueError, r"encode: '\\n' at place 0 .* or take ByteTokenizer"),
        (lambda: CharTokenizer("abc").encode(b"abc"), TypeError, "encode takes a text"),
        (lambda: ByteTokenizer().encode([1]), TypeError, "encode takes a text"),
        (lambda: CharTokenizer("abc").decode([0, 3]), ValueError, "decode: 3 at place 1; numbers are 0 to 2"),
        (lambda: CharTokenizer("abc").decode([-1]), ValueError, "decode: -1 at place 0; numbers are 0 to 2"),
        (lambda: ByteTokenizer().decode([256]), ValueError, "decode: 256 at place 0; numbers are 0 to 255"),
        (lambda: CharTokenizer("abc").decode([[0]]), ValueError, r"decode: numbers are int64 of shape \(1, 1\)"),
        (lambda: ByteTokenizer().decode([0.5]), ValueError, r"decode: numbers are float32 .* one row of whole numbers"),
        (lambda: mg.data.sorting(-1), ValueError, "sorting: count=-1"),
        (lambda: mg.data.sorting(1, length=0), ValueError, "sorting: length=0"),
    ],
)
def test_wrong_arguments_are_rejected(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_text_is_the_same_everywhere():
    text = mg.data.alice()
    assert text.startswith("CHAPTER I. Down the Rabbit-Hole\n\nAlice was beginning to get very tired")
    assert (len(text), len(CharTokenizer(text)), "\r" in text) == (11251, 62, False)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "604c06c05d2c77d9"


def test_digits_and_the_same_in_order():
    rows = mg.data.sorting(500, length=5, seed=1)
    assert (rows.shape, rows.dtype) == ((500, 10), np.int64)
    np.testing.assert_array_equal(np.sort(rows[:, :5]), rows[:, 5:])
    counts = np.bincount(rows[:, :5].ravel())
    assert len(counts) == 10 and counts.min() > 200
    assert (rows != mg.data.sorting(500, length=5, seed=2)).any() and (rows == mg.data.sorting(500, 5, 1)).all()
