"""13: inputs and targets of a model of text, in which each target is the character that the model reads."""

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


def text(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(size)


def truth(seed: int, size: int, start: int, length: int) -> np.ndarray:
    """By places, one after the other."""
    numbers = text(seed, size)
    places = range(start, start + length)
    return np.array([[numbers[place] for place in places], [numbers[place + 1] for place in places]])


shifted_target = PythonExercise(
    "13",
    task="""
**A loss of 0 after a few steps.** This function cuts a piece out of a text: what the model reads, and the targets, one
for each place. A model that is trained with it gets a loss of nearly 0 within a few steps, and when it writes, it
repeats its last character for ever. Mend it. At each place the target is the *next* character.
""",
    solution="""
def shifted_target(numbers, start, length):
    x = numbers[start : start + length]
    #> wanted = numbers[start : start + length]
    wanted = numbers[start + 1 : start + length + 1]
    #<
    return x, wanted
""",
    bug=True,
    hints=[
        "What does the model read at the first place, and what shall it say there?",
        "the targets are the same piece of the text, one place further on.",
        "both ends of the slice move by 1.",
    ],
    wrong=[
        Wrong("numbers[start + 1 : start + length + 1]", "numbers[start + 1 : start + length]", "raised",
              "The targets are as many as the places: the end moves by 1 as well."),
        Wrong("numbers[start + 1 : start + length + 1]", "numbers[start - 1 : start + length - 1]", "value",
              "These are the characters before. The model is to say the next ones."),
        Wrong("numbers[start + 1 : start + length + 1]", "np.roll(x, -1)", "value",
              "All are right but the last: it is the first character of the piece, and not the one that follows it."),
        Wrong("numbers[start + 1 : start + length + 1]", "numbers[start + 2 : start + length + 2]", "value",
              "One place further on, not two."),
        Wrong("numbers[start + 1 : start + length + 1]", "numbers[start + 1 : start + length + 1][::-1]", "value",
              "The order stays as in the text."),
        Wrong("x = numbers[start : start + length]", "x = numbers[start : start + length - 1]", "raised",
              "What the model reads was right: `length` characters."),
    ],
    call=lambda function, seed, size, *where: np.array(function(text(seed, size), *where)),
    truth=truth,
    given=("seed", "size of the text", "start", "length"),
    parts=("what the model reads", "the targets"),
    cases=[(0, 12, 2, 5), (1, 9, 1, 1), (2, 30, 7, 8)],
)  # fmt: skip
