"""09: a training loop with one line in the wrong place."""

from typing import Any

import numpy as np

from minigrad import data, nn
from minigrad.lab.exercises import PythonExercise, Wrong
from minigrad.tape import no_grad

ROWS, INPUTS, CLASSES, SIZE = 21, 5, 3, 8  # the last batch has 5 rows


def problem(seed: int) -> tuple[np.ndarray, ...]:
    """Images, labels, and the first weights and biases of one layer."""
    rng = np.random.default_rng(seed)
    weight, bias = rng.standard_normal((INPUTS, CLASSES)), rng.standard_normal(CLASSES)
    return rng.standard_normal((ROWS, INPUTS)), rng.integers(0, CLASSES, ROWS), weight, bias


def run(function: Any, seed: int, epochs: int) -> Any:
    """The losses that the reader's function returns."""
    images, labels, weight, bias = problem(seed)
    model = nn.Linear(INPUTS, CLASSES, device="numpy", dtype="float64")
    with no_grad():
        for parameter, start in zip(model.parameters(), (weight, bias), strict=True):
            parameter *= 0
            parameter += start
    return function(model, list(data.batches(images, labels, SIZE, device="numpy")), epochs)


def truth(seed: int, epochs: int) -> np.ndarray:
    """The mean loss of each epoch in NumPy, with the gradient written out."""
    images, labels, weight, bias = problem(seed)
    w = np.vstack([weight, bias])
    v, means = np.zeros_like(w), []
    for _ in range(epochs):
        losses: list[float] = []
        for start in range(0, ROWS, SIZE):
            x = np.hstack([images[start : start + SIZE], np.ones((len(images[start : start + SIZE]), 1))])
            wanted = np.eye(CLASSES)[labels[start : start + SIZE]]
            e = np.exp(x @ w)
            p = e / e.sum(axis=1, keepdims=True)
            losses += (-np.log((p * wanted).sum(axis=1))).tolist()
            v = 0.9 * v + x.T @ (p - wanted) / len(x)
            w = w - 0.1 * v
        means.append(float(np.mean(losses)))
    return np.array(means)


train_epochs = PythonExercise(
    "09",
    task="""
**It learns, but badly.** This loop trains a model and returns the mean loss of every epoch. It runs without an error,
and the loss even falls for a while. Still one line stands in the wrong place. Find it, and move it.

A batch may be smaller than the others, so its loss is weighted with its size: those lines are right.
""",
    solution="""
def train_epochs(model, batches, epochs):
    optimizer = mg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    means = []
    for epoch in range(epochs):
        total, count = 0.0, 0
        #> optimizer.zero_grad()
        #<
        for x, labels in batches:
            #>
            optimizer.zero_grad()
            #<
            loss = mg.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels.numpy())
            count += len(labels.numpy())
        means.append(total / count)
    return means
""",
    bug=True,
    hints=[
        "follow p.grad of one parameter through two batches. What is in it when the second backward() begins?",
        "backward() adds to a gradient that is there already. Who forgets it, and how often?",
        "every batch needs gradients of its own: zero_grad() belongs to what happens once a batch.",
    ],
    wrong=[
        Wrong("            optimizer.zero_grad()\n", "", "value",
              "Now nothing ever forgets the gradients: those of all batches so far are added up in every step."),
        Wrong("            optimizer.zero_grad()\n            loss = mg.cross_entropy(model(x), labels)\n"
              "            loss.backward()\n",
              "            loss = mg.cross_entropy(model(x), labels)\n            loss.backward()\n"
              "            optimizer.zero_grad()\n", "value",
              "Between backward() and step() the gradients are needed: this throws them away, and no parameter moves."),
        Wrong("total / count", "total / len(batches)", "value",
              "The total is a sum over digits. Divide it by their number, and not by the number of batches."),
        Wrong("    optimizer = mg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n    means = []\n"
              "    for epoch in range(epochs):\n",
              "    means = []\n    for epoch in range(epochs):\n"
              "        optimizer = mg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n", "value",
              "A new optimizer in every epoch starts with no momentum: the velocities of the epoch before are lost."),
        Wrong("mg.cross_entropy(model(x), labels)", "mg.cross_entropy(mg.softmax(model(x)), labels)", "value",
              "cross_entropy takes logits and makes the softmax itself. Of a softmax it makes another softmax."),
        Wrong("loss.item() * len(labels.numpy())", "loss.item()", "value",
              "The loss is a mean over its batch. Weight it with the size of the batch, since one batch is smaller."),
        Wrong("means.append(total / count)", "means.append(loss.item())", "value",
              "This is the loss of the last batch alone, and not the mean of the epoch."),
    ],
    call=run,
    truth=truth,
    cases=[(0, 1), (1, 3), (2, 2)],
)  # fmt: skip
