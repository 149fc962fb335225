"""09: a network an eighth as wide, trained to read as well."""

from functools import cache
from typing import Any

import numpy as np

from minigrad import data, nn
from minigrad.create import manual_seed, tensor
from minigrad.lab.exercises import PythonExercise, Wrong

WANTED = 97.0  # percent of the test digits


@cache
def digits() -> data.Digits:
    return data.digits()


def percent(function: Any, hidden: int) -> Any:
    """The percentage of the test digits that the reader's model reads, at most WANTED.

    Raises ValueError for a model with more parameters than one with this many hidden units.
    """
    manual_seed(0)
    model = function(*digits().train)
    size = sum(p.size for p in model.parameters())
    if size > (most := 64 * hidden + hidden + hidden * 10 + 10):
        raise ValueError(f"your network learns {size} numbers, and one with {hidden} hidden units {most}")
    logits = model(tensor(digits().test.images, device="numpy"))
    return np.round(min(100 * nn.accuracy(logits, digits().test.labels), WANTED), 1)


small_student = PythonExercise(
    "09",
    task="""
**A small student.** The network above has 128 hidden units. This one has 16, an eighth, and reads hardly a digit. Train
it so that it reads at least 97 % of the test digits. You may change the epochs, the learning rate, the momentum and the
optimizer. The function gets the training digits alone, and the check counts on the test digits.
""",
    solution="""
def small_student(images, labels):
    first, last = mg.nn.Linear(64, 16, device="numpy"), mg.nn.Linear(16, 10, device="numpy")
    model = mg.nn.Sequential(first, mg.relu, last)
    #> optimizer = mg.optim.SGD(model.parameters(), lr=0.02)  # <- change this line
    #> for epoch in range(2):  # <- and this one
    optimizer = mg.optim.Adam(model.parameters(), lr=0.005)
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
        "two epochs are 46 steps, and each of them is short. Look at the table above: which line of it is this one?",
        "one change at a time. More epochs alone are not enough at lr=0.02, so let the steps grow: ten times, perhaps.",
        "then momentum=0.9, with a smaller lr again, or mg.optim.Adam, whose steps have a length of their own.",
        "Adam takes a much smaller lr than SGD: 0.005 is a good one, and 20 epochs are enough.",
    ],
    wrong=[
        Wrong("optim.Adam(model.parameters(), lr=0.005)", "optim.SGD(model.parameters(), lr=0.02)", "value",
              "More epochs help, but steps of 0.02 without momentum are too short for twenty of them."),
        Wrong("range(20)", "range(2)", "value", "Two epochs are 46 steps: too few, whatever their length."),
        Wrong("lr=0.005", "lr=5", "value",
              "Steps as long as this jump over every valley: the loss grows. Adam's usual lr is 0.001 to 0.01."),
        Wrong("lr=0.005", "lr=0.00005", "value", "The steps are too short to arrive within these epochs."),
        Wrong("size=64", "size=1437", "value",
              "One batch of all digits is one step an epoch: 20 steps in all. Small batches make many steps of it."),
        Wrong("            optimizer.zero_grad()\n", "", "value",
              "The gradients of all batches so far add up. Clear them before each backward()."),
        Wrong("Linear(64, 16, device=\"numpy\"), mg.nn.Linear(16, 10",
              "Linear(64, 128, device=\"numpy\"), mg.nn.Linear(128, 10", "raised",
              "That would be the large network again. Keep the 16 hidden units, and change how they are trained."),
    ],
    call=percent,
    truth=lambda hidden: WANTED,
    cases=[(16,)],
)  # fmt: skip
