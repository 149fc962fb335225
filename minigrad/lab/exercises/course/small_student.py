"""09: a network an eighth as wide, trained to read as well."""

from functools import cache
from typing import Any

import numpy as np

from minigrad import data, nn
from minigrad.create import manual_seed, tensor
from minigrad.lab.exercises import PythonExercise, Wrong

WANTED = 97.0  # percent of the digits held back, in the mean of the starts
HIDDEN, HELD_BACK, STARTS = 16, 360, 3
NAMES = np.array([3, 8, 0, 6, 1, 9, 4, 7, 5, 2])  # the digit 0 is called 3 here


@cache
def parts() -> tuple[data.Split, data.Split]:
    """Training digits to learn from, and those held back. Both have other names: other digits teach nothing here."""
    images, labels = data.digits().train
    named = NAMES[labels]
    return data.Split(images[:-HELD_BACK], named[:-HELD_BACK]), data.Split(images[-HELD_BACK:], named[-HELD_BACK:])


def percent(function: Any, case: str) -> Any:
    """The percentage of the digits held back that the reader's models read in the mean, at most WANTED.

    Raises ValueError for a model with more parameters than one with HIDDEN hidden units.
    """
    learned, held = parts()
    shares = []
    for seed in range(STARTS):
        manual_seed(seed)
        model = function(*learned)
        size = sum(p.size for p in model.parameters())
        if size > (most := 64 * HIDDEN + HIDDEN + HIDDEN * 10 + 10):
            raise ValueError(f"your network learns {size} numbers, and one with {HIDDEN} hidden units {most}")
        shares.append(100 * nn.accuracy(model(tensor(held.images, device="numpy")), held.labels))
    return np.round(np.minimum(np.mean(shares), WANTED), 1)


small_student = PythonExercise(
    "09",
    task=f"""
**A small student.** This network has {HIDDEN} hidden units, and reads hardly a digit. Train it so that it reads at
least {WANTED:g} % of digits that it has not seen. You may change the epochs, the learning rate, the momentum and the
optimizer.

The check holds back {HELD_BACK} training digits, and calls your function with the others, from {STARTS} random starts.
What counts is the mean share of the held-back digits. The check gives the ten digits other labels, so no other data can
teach them.
""",
    solution="""
def small_student(images, labels):
    first, last = mg.nn.Linear(64, 16, device="numpy"), mg.nn.Linear(16, 10, device="numpy")
    model = mg.nn.Sequential(first, mg.relu, last)
    #> optimizer = mg.optim.SGD(model.parameters(), lr=0.02)  # <- change this line
    #> for epoch in range(2):  # <- and this one
    optimizer = mg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(20):
    #<
        for x, wanted in mg.data.batches(images, labels, size=64, seed=epoch, device="numpy"):
            optimizer.zero_grad()
            mg.cross_entropy(model(x), wanted).backward()
            optimizer.step()
    return model
""",
    bug=True,
    slow=True,
    hints=[
        "two epochs are 34 steps, and each of them is short. Look at the table above: which line of it is this one?",
        "one change at a time. More epochs alone are not enough at lr=0.02, so let the steps grow: ten times, perhaps.",
        "then momentum=0.9. It makes a step up to ten times as long, so lr may be a little smaller than without it.",
        "20 epochs with momentum=0.9 and an lr between 0.05 and 0.2 are enough. So is mg.optim.Adam with lr=0.01.",
    ],
    wrong=[
        Wrong("lr=0.1, momentum=0.9", "lr=0.02", "value",
              "More epochs help, but steps of 0.02 without momentum are too short for twenty of them."),
        Wrong("range(20)", "range(2)", "value", "Two epochs are 34 steps: too few, whatever their length."),
        Wrong("lr=0.1", "lr=20", "value",
              "Steps as long as this jump over every valley: the loss grows. With momentum, try 0.05 to 0.2."),
        Wrong("lr=0.1", "lr=0.001", "value", "The steps are too short to arrive within these epochs."),
        Wrong("size=64", "size=1437", "value",
              "One batch of all digits is one step an epoch: 20 steps in all. Small batches make many steps of it."),
        Wrong("            optimizer.zero_grad()\n", "", "value",
              "The gradients of all batches so far add up. Clear them before each backward()."),
        Wrong("Linear(64, 16, device=\"numpy\"), mg.nn.Linear(16, 10",
              "Linear(64, 128, device=\"numpy\"), mg.nn.Linear(128, 10", "raised",
              "That would be the large network again. Keep the 16 hidden units, and change how they are trained."),
    ],
    call=percent,
    truth=lambda case: WANTED,
    cases=[(f"percent of {HELD_BACK} digits held back",)],
)  # fmt: skip
