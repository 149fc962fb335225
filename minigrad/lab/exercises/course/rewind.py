"""16: a loop over time, walked back through its saved states."""

from minigrad.lab.exercises import PythonExercise, Wrong, slopes


def last(x: float, r: float, steps: int) -> float:
    """The population after `steps` years."""
    for _ in range(steps):
        x = r * x * (1 - x)
    return x


rewind = PythonExercise(
    "16",
    task=r"""
**Walk a time loop backwards.** A population of hares grows and starves: each year $x$ becomes $r\,x\,(1 - x)$. How does
the number after so many years depend on the number at the start, and on the growth rate $r$? The way forward is
written, and keeps each state. Write the way back, as the tape does it for the flow: `d_x` is the gradient of the state,
`d_r` adds up the portions of $r$ from all years.
""",
    solution="""
def rewind(x, r, steps):
    states = []
    for _ in range(steps):
        states.append(x)
        x = r * x * (1 - x)
    d_x, d_r = 1.0, 0.0
    #> # <- your code: the way back
    for x in reversed(states):
        d_r += d_x * x * (1 - x)
        d_x *= r * (1 - 2 * x)
    #<
    return d_x, d_r
""",
    hints=[
        "Go through the states from the last to the first. In each year two things happen: r gets a portion, and d_x "
        "becomes the gradient of the state before.",
        "The year's result r * x * (1 - x) grows x * (1 - x) times as fast as r, and r * (1 - 2 * x) times as fast as "
        "x.",
        "d_r needs d_x as it was when the year's result was reached: add the portion of r first, then change d_x.",
    ],
    wrong=[
        Wrong("in reversed(states)", "in states", "value",
              "The portions of r are off: the gradient arrives from the last year, so reverse the states."),
        Wrong("d_r += d_x", "d_r = d_x", "value", "`=` keeps only the portion of the first year. All count: `+=`."),
        Wrong("d_r += d_x * x * (1 - x)\n        d_x *= r * (1 - 2 * x)",
              "d_x *= r * (1 - 2 * x)\n        d_r += d_x * x * (1 - x)", "value",
              "The portion of r takes d_x as it arrives in this year, before it is handed on to the state."),
        Wrong("d_x *= r", "d_x = r", "value",
              "What arrives from the later years is lost: d_x is multiplied by the derivative of the year."),
        Wrong("for x in reversed", "for _ in reversed", "value",
              "Each year has its own state: take it from `states`. x is still the last one."),
        Wrong("(1 - 2 * x)", "(1 - x)", "value",
              "The year's result depends on x twice, in x and in (1 - x): the derivative is r * (1 - 2 * x)."),
        Wrong("d_x * x * (1 - x)", "x * (1 - x)", "value",
              "What arrives from the later years is missing: the portion is multiplied by d_x."),
    ],
    truth=lambda x, r, steps: slopes(lambda x, r: last(x, r, steps), x, r),
    cases=[(0.2, 3.0, 1), (0.3, 2.5, 4), (0.1, 3.5, 7), (0.5, 2.0, 0)],
)  # fmt: skip
