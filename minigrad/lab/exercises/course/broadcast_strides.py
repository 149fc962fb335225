"""03: the strides of an array that is broadcast, and the elements that its gradient adds up."""

from typing import Any

from minigrad.create import ones, zeros
from minigrad.kernels import view as views
from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong

OWN, RESULT = (3, 1), (2, 3, 4)


def run() -> dict[str, Any]:
    """The view of the smaller array, and the gradient of one of its elements where each dy is 1."""
    view = views.broadcast(OWN, RESULT)
    b = zeros(*OWN, requires_grad=True)
    (ones(*RESULT) + b).sum().backward()
    assert b.grad is not None
    return {"strides": [view.stride[axis] for axis in reversed(range(view.ndim))], "added": b.grad.numpy()[0, 0]}


broadcast_strides = Prediction(
    "03",
    "broadcast_strides",
    task=f"""
**Strides.** An array `a` has the shape {RESULT}, and `b` has the shape {OWN}. `a + b` repeats `b` without a copy, by
strides. Predict the three strides of `b` in the view for the result, from axis 0 to axis 2. Then predict how many
elements of `dy` are added up in one element of `db`.
""",
    solution="""
#> axis_0 = ...  # a step along axis 0 of the result moves by how many elements of b?
axis_0 = 0
#<
#> axis_1 = ...
axis_1 = 1
#<
#> axis_2 = ...
axis_2 = 0
#<
#> added = ...  # elements of dy in one element of db
added = 8
#<
""",
    run=run,
    truth=lambda found: {**{f"axis_{n}": each for n, each in enumerate(found["strides"])}, "added": found["added"]},
    show=lambda found: show.broadcast(RESULT, OWN),
    hints=[
        "line the shapes up from the right. Which axes does b lack, and along which is its extent 1?",
        "along an axis where b is repeated, one stands still. Along the other one, the numbers of b lie side by side.",
        "each element of b is used at every place of axis 0 and of axis 2: multiply their extents.",
    ],
    wrong=[
        Wrong("axis_0 = 0", "axis_0 = 3", "value",
              "3 would be right if b had several tables of 3 numbers. It has one, which is used again: stand still."),
        Wrong("axis_0 = 0", "axis_0 = 12", "value", "That is the stride of a. b has no axis 0: it stands still there."),
        Wrong("axis_1 = 1", "axis_1 = 4", "value",
              "That is the stride of a, whose rows have 4 numbers. A row of b has one: the next row is 1 further on."),
        Wrong("axis_1 = 1", "axis_1 = 0", "value", "b has 3 different numbers along axis 1: it has to move on."),
        Wrong("axis_2 = 0", "axis_2 = 1", "value", "The extent of b is 1 there: one element serves all of axis 2."),
        Wrong("added = 8", "added = 4", "value", "b is repeated along axis 0 as well: both extents count."),
        Wrong("added = 8", "added = 2", "value", "b is repeated along axis 2 as well: both extents count."),
        Wrong("added = 8", "added = 24", "value",
              "24 is all of dy. Each of the 3 elements of b gets a third of it: its own places on axis 0 and axis 2."),
        Wrong("added = 8", "added = 6", "value", "The extents of the repeated axes are multiplied, not added."),
    ],
)  # fmt: skip
