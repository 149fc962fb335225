"""02: the portions of a gradient, each along one use of a value."""

from minigrad.create import tensor
from minigrad.lab.exercises import Prediction, Wrong


def run() -> dict[str, float]:
    """Both gradients by the tape; the portion of b alone that its last use sends, by cutting off the first."""
    a, b = (tensor(value, requires_grad=True) for value in (3.0, 2.0))
    ((a * b + a) * b).backward()
    last = tensor(2.0, requires_grad=True)
    ((a * b + a).detach() * last).backward()
    found = {"da": a.grad, "db": b.grad, "first": last.grad}
    return {name: float(gradient.item()) for name, gradient in found.items() if gradient is not None}


two_portions = Prediction(
    "02",
    "two_portions",
    task="""
**Portions.** Here $a = 3$ and $b = 2$:

```
u = a * b
v = u + a
y = v * b
```

Walk back by hand, with the two rules above. Both `a` and `b` are used twice, so each gets two portions. Predict the
gradients `da` and `db`, and the portion of `b` that arrives *first* on the walk back.
""",
    solution="""
#> first = ...  # the portion of b that arrives first
first = 9
#<
#> da = ...  # both portions of a
da = 6
#<
#> db = ...  # both portions of b
db = 15
#<
""",
    run=run,
    truth=lambda found: found,
    hints=[
        "first the values, forward: u, v, y. Then backward from y, whose gradient is 1.",
        "y = v * b comes first on the way back: v gets the portion b, and b gets the portion v.",
        "the gradient of v goes on to u and to a unchanged, since v = u + a. Then u = a * b hands out two portions.",
    ],
    wrong=[
        Wrong("first = 9", "first = 6", "value",
              "The walk begins at the end, with y = v * b. There b gets the other factor, which is v."),
        Wrong("first = 9", "first = 2", "value", "2 is what v gets. Each factor gets the other one: b gets v."),
        Wrong("da = 6", "da = 4", "value", "This is the portion through u = a * b. a was used in v = u + a, too."),
        Wrong("da = 6", "da = 2", "value", "This is the portion through v = u + a. a was used in u = a * b, too."),
        Wrong("da = 6", "da = 3", "value",
              "The gradient of v is 2 and not 1. It is handed on by both uses of a: 2 * b + 2."),
        Wrong("db = 15", "db = 9", "value", "This is the portion through y = v * b. b was used in u = a * b, too."),
        Wrong("db = 15", "db = 6", "value", "This is the portion through u = a * b. b was used in y = v * b, too."),
        Wrong("db = 15", "db = 12", "value",
              "The gradient that arrives at u is 2, and its rule hands on 2 * a, not a. Then add the other portion."),
    ],
)  # fmt: skip
