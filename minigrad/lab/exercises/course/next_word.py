"""13: the probabilities from which the next word is drawn, with a temperature and the k likeliest words."""

from typing import Any

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


def logits(seed: int, words: int) -> np.ndarray:
    return 3 * np.random.default_rng(seed).standard_normal(words)


def truth(seed: int, words: int, temperature: float, k: int) -> np.ndarray:
    """Word by word: its weight, if fewer than k words are likelier."""
    x = logits(seed, words)
    weights = np.array([np.exp(one / temperature) if (x > one).sum() < k else 0.0 for one in x])
    return weights / weights.sum()


def called(function: Any, seed: int, words: int, *how: Any) -> Any:
    return function(logits(seed, words), *how)


next_word = PythonExercise(
    "13",
    task=r"""
**Draw the next word.** Write the probabilities of all words from their logits: the softmax of logits / temperature,
but only the `k` words with the largest logits get a chance. The others get 0, and what is left adds up to 1.
`np.sort(logits)[-k]` is the k-th largest number.
""",
    solution="""
def next_word(logits, temperature, k):
    #> return np.ones(len(logits)) / len(logits)  # <- your code
    least = np.sort(logits)[-k]
    weights = np.exp((logits - logits.max()) / temperature)
    weights = np.where(logits >= least, weights, 0.0)
    return weights / weights.sum()
    #<
""",
    hints=[
        "first the weights: exp of (logits - their maximum) / temperature. The maximum cancels, as in notebook 05.",
        "np.where(logits >= least, weights, 0.0) keeps the k likeliest.",
        "divide by the sum at the very end, so that what is left adds up to 1.",
    ],
    wrong=[
        Wrong("(logits - logits.max()) / temperature", "(logits - logits.max()) * temperature", "value",
              "A high temperature makes the words more equal: divide by it."),
        Wrong("return weights / weights.sum()", "return weights", "value",
              "Probabilities add up to 1: divide by the sum."),
        Wrong("np.where(logits >= least, weights, 0.0)", "weights", "value",
              "All words have a chance now. Only the k with the largest logits should."),
        Wrong("logits >= least", "logits > least", "value", "The k-th largest one is among the k: >= and not >."),
        Wrong("np.sort(logits)[-k]", "np.sort(logits)[k - 1]", "value",
              "np.sort goes from small to large: the k-th largest number is [-k]."),
        Wrong("np.sort(logits)[-k]", "logits[k - 1]", "value", "The logits are in the order of the words: sort them."),
    ],
    call=called,
    truth=truth,
    given=("seed", "words", "temperature", "k"),
    cases=[(0, 5, 1.0, 3), (1, 8, 0.5, 4), (2, 6, 2.0, 2), (3, 4, 0.8, 4)],
)  # fmt: skip
