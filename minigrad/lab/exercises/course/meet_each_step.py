"""14: threads that own units, and a barrier that does not order all that it should."""

from collections.abc import Callable, Sequence

import numpy as np

from minigrad.lab.check.answer import Refused
from minigrad.lab.exercises import PythonExercise, Wrong

UNITS, STEPS = 6, 4


def run(work: Callable, order: Sequence[int]) -> np.ndarray:
    """y of all steps, by as many threads as `order` has: from barrier to barrier they run one after the other so."""
    w, from_x, h = given()
    y, threads = np.full_like(from_x, np.nan), len(order)
    running = {me: work(me, threads, w, from_x, h, y) for me in order}
    if None in running.values():
        raise Refused("There is no `yield` left, so no thread ever waits for another one", "unused")
    met = dict.fromkeys(order, 0)
    while running:
        at_barrier = [me for me in order if next(running[me], "ended") != "ended"]
        if at_barrier and len(at_barrier) < threads:
            raise Refused(
                f"Thread {at_barrier[0]} waits at a barrier that not all threads reach: on a machine it waits forever",
                "barrier-divergence",
            )
        running = {me: running[me] for me in at_barrier}
        met |= {me: met[me] + 1 for me in at_barrier}
    if met[order[0]] > STEPS:
        raise Refused(f"{met[order[0]]} barriers, where {STEPS} are enough: one a step", "wasteful")
    return y


def given() -> tuple[np.ndarray, ...]:
    """W_hh, the sums from x of every step, and h before the first step."""
    rng = np.random.default_rng(0)
    return tuple(rng.uniform(-1, 1, shape) for shape in ((UNITS, UNITS), (STEPS, UNITS), (UNITS,)))


def truth(order: Sequence[int]) -> np.ndarray:
    """One thread that computes all units of a step together."""
    w, from_x, h = given()
    y = []
    for sums in from_x:
        h = np.tanh(sums + w @ h)
        y.append(h)
    return np.array(y)


meet_each_step = PythonExercise(
    "14",
    task=r"""
**A barrier is not enough.** Below is `units` for one sequence, in Python: every thread runs this function, with its own
number `me`, on the same arrays. `yield` is the barrier: there a thread waits until all others have come, too. With one
thread the result is right. With two or more it depends on who is first.

The check plays the threads: from barrier to barrier it runs one after the other, in several orders. Mend the function.
One barrier a step is enough. The C++ above has it right: where does it read `h` of the step before?
""",
    solution="""
def meet_each_step(me, threads, w, from_x, h, y):
    units = len(w)
    own = slice(units * me // threads, units * (me + 1) // threads)
    for t in range(len(y)):
        #> h[own] = np.tanh(from_x[t, own] + w[own] @ h)
        #> y[t, own] = h[own]
        before = y[t - 1] if t > 0 else h
        y[t, own] = np.tanh(from_x[t, own] + w[own] @ before)
        #<
        yield  # barrier
""",
    bug=True,
    hints=[
        "take two threads, and let thread 0 do a whole step before thread 1 begins it. Which h does thread 1 read?",
        "a thread changes its part of h while others still have to read the old one. Either all wait once more before "
        "they write, or the new state goes where nobody reads in this step.",
        "row t of y is such a place: nobody reads it before the barrier. After the barrier y[t - 1] is h of the step "
        "before; only in step 0 it is h itself.",
    ],
    wrong=[
        Wrong("        before = y[t - 1] if t > 0 else h\n"
              "        y[t, own] = np.tanh(from_x[t, own] + w[own] @ before)\n",
              "        new = np.tanh(from_x[t, own] + w[own] @ h)\n        yield\n        h[own] = y[t, own] = new\n",
              "wasteful", "Right, and it waits twice a step. In y every step has a row of its own: one is enough."),
        Wrong("        yield  # barrier\n", "    yield  # barrier\n", "value",
              "The barrier must be in the loop: h of *every* step has to be complete before the next one begins."),
        Wrong("y[t - 1] if t > 0 else h", "h", "value",
              "Every step begins with h of before the first one: h never changes."),
        Wrong("y[t - 1] if t > 0 else h", "y[t - 1]", "value",
              "Before step 0 there is no row of y: y[-1] is the *last* row, which nobody has written yet. Take h."),
        Wrong("y[t - 1] if t > 0 else h", "y[t] if t > 0 else h", "value",
              "Row t is being written in this step. The step before is row t - 1."),
        Wrong("        yield  # barrier\n", "", "unused", "Without a barrier nothing says when the others are done."),
        Wrong("        yield  # barrier\n", "        if me == 0:\n            yield  # barrier\n", "barrier-divergence",
              "A barrier is for all threads: none may go around it."),
        Wrong("        yield  # barrier\n", "        if t % 2:\n            yield  # barrier\n", "value",
              "Each step needs h of the step before: there is a barrier after every one."),
    ],
    truth=truth,
    call=run,
    given=("the order of the threads",),
    cases=[([0],), ([0, 1],), ([1, 0],), ([2, 0, 1],), ([3, 2, 1, 0],)],
)  # fmt: skip
