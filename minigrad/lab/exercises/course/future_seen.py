"""12: a causal mask that lets each query see one key of the future."""

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


def truth(queries: int, keys: int) -> np.ndarray:
    """By counting: the last query stands at the last key."""
    places = range(keys - queries, keys)
    return np.array([[key <= place for key in range(keys)] for place in places])


future_seen = PythonExercise(
    "12",
    task="""
**Too good to be true.** A network is trained to say the next letter of a text, with this mask. In training its loss
falls to almost 0. Used to write a text, it writes nonsense. There is a second fault: with one query, at the end of 5
keys, the query sees too little. Mend the mask: True where a query sees a key. Both lengths end together.
""",
    solution="""
def future_seen(queries, keys):
    i = np.arange(queries)[:, None]
    j = np.arange(keys)[None, :]
    #> return j <= i + 1
    return j <= i + keys - queries
    #<
""",
    bug=True,
    hints=[
        "Write down the mask for 3 queries and 3 keys. What does the first query see? What is it to predict?",
        "the query in row i stands at place i + keys - queries of the keys. For equal lengths this is i.",
        "a query sees its own place and those before: j <= the place of the query.",
    ],
    wrong=[
        Wrong("j <= i + keys - queries", "j <= i", "value",
              "For equal lengths it is right. With more keys than queries, row i stands at place i + keys - queries."),
        Wrong("j <= i + keys - queries", "j < i + keys - queries", "value",
              "Now a query does not see the key of its own place, and the first one may see nothing: <= and not <."),
        Wrong("j <= i + keys - queries", "j <= i + 1 + keys - queries", "value",
              "The place is right, but the key after it is the answer that the network should find: leave out the 1."),
        Wrong("j <= i + keys - queries", "j >= i + keys - queries", "value", "That is the future: <= and not >=."),
        Wrong("j <= i + keys - queries", "j <= i + queries - keys", "value",
              "There are more keys than queries: keys - queries are before the first query."),
        Wrong("j <= i + keys - queries", "j == i + keys - queries", "value",
              "So each query sees only its own place, and nothing of what came before."),
    ],
    truth=truth,
    given=("queries", "keys"),
    cases=[(3, 3), (1, 5), (1, 1), (4, 6)],
)  # fmt: skip
