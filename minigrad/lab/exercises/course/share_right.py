"""11: a measurement of a network in training mode, which depends on the batches and changes the network."""

from typing import Any

import numpy as np

from minigrad import data, nn
from minigrad.devices.random import manual_seed
from minigrad.lab.exercises import PythonExercise, Wrong
from minigrad.tape import no_grad

IMAGES, CLASSES = 60, 4


def network(seed: int) -> tuple[nn.Module, np.ndarray, np.ndarray]:
    """A network whose running statistics have seen some batches, and images with labels."""
    manual_seed(seed)
    rng = np.random.default_rng(seed)
    on: Any = {"device": "numpy"}
    parts = nn.Conv2d(1, 6, 3, **on), nn.BatchNorm2d(6, **on), nn.GlobalAvgPool2d(), nn.Linear(6, CLASSES, **on)
    model = nn.Sequential(*parts)
    images = rng.standard_normal((IMAGES, 1, 5, 5)) * rng.uniform(0.2, 3, (IMAGES, 1, 1, 1))
    labels = rng.integers(0, CLASSES, IMAGES)
    with no_grad():
        for x, _ in data.batches(images.astype(np.float32), labels, 20, device="numpy"):
            model(x)
    return model, images.astype(np.float32), labels


def measured(function: Any, seed: int, size: int) -> Any:
    """The share, the share with all images in one batch, the arrays that have changed, and the mode afterwards."""
    model, images, labels = network(seed)
    before = model.state_dict()
    shares = [function(model, images, labels, each) for each in (size, IMAGES)]
    changed = sum((before[name] != value).any() for name, value in model.state_dict().items())
    return np.array([*shares, changed, model.training], dtype=float)


def truth(seed: int, size: int) -> np.ndarray:
    """In NumPy, with the running statistics."""
    model, images, labels = network(seed)
    state = model.state_dict()
    w, b, weight, bias, mean, var = (
        state[name].astype(float)
        for name in ("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var")
    )
    under = np.lib.stride_tricks.sliding_window_view(images[:, 0].astype(float), (3, 3), axis=(1, 2))
    y = np.einsum("npqrs,krs->nkpq", under, w[:, 0]).mean(axis=(2, 3)) + b
    y = (y - mean) / np.sqrt(var + 1e-5) * weight + bias
    linear = list(model.parameters())[-2:]
    logits = y @ linear[0].numpy() + linear[1].numpy()
    share = (logits.argmax(axis=1) == labels).mean()
    return np.array([share, share, 0, 1])


share_right = PythonExercise(
    "11",
    task="""
**Measured twice, two numbers.** This function counts how many images a network reads right. Called with batches of
another size, it gives another share for the same network. And when the training goes on afterwards, its loss is not
what it would have been without the measurement. Mend it: the share must not depend on the batches, and the network must
be as it was before, in training mode.
""",
    solution="""
def share_right(model, images, labels, size):
    right = 0
    #>
    model.eval()
    #<
    for x, wanted in mg.data.batches(images, labels, size, device="numpy"):
        with mg.no_grad():
            logits = model(x)
        found = logits.numpy().argmax(axis=1)
        right += (found == wanted.numpy()).sum()
    #>
    model.train()
    #<
    return right / len(labels)
""",
    bug=True,
    hints=[
        "which statistics does a batch norm normalize with while the network trains? Whose images are in them?",
        "in training mode every call of the network moves the running statistics, also within mg.no_grad().",
        "model.eval() before the loop makes the network use its running statistics and leave them alone.",
        "the network came in training mode. model.train() behind the loop puts it back.",
    ],
    wrong=[
        Wrong("    model.train()\n", "", "value",
              "The share is right. But the network stays in evaluation, and the next training step would not learn the "
              "statistics: model.train() at the end."),
        Wrong("    model.eval()\n", "", "value",
              "Without model.eval() each image is normalized with the images that happen to be in its batch."),
        Wrong("    model.eval()\n    for", "    model.train()\n    for", "value",
              "model.train() is the mode that it is in already. model.eval() is the other one."),
        Wrong("right / len(labels)", "right / size", "value", "The share is of all images: divide by their number."),
        Wrong("wanted.numpy()).sum()\n    model.train()\n", "wanted.numpy()).sum()\n        model.train()\n", "value",
              "After the first batch the network is in training mode again: model.train() belongs behind the loop."),
        Wrong("argmax(axis=1)", "argmax(axis=0)", "raised",
              "The largest logit of each image is wanted: along axis 1. That line was right."),
    ],
    call=measured,
    truth=truth,
    given=("seed", "size of a batch"),
    parts=("the share", "the share in one batch", "the number of changed arrays", "the training mode (1: on)"),
    cases=[(0, 7), (1, 1), (2, 20)],
)  # fmt: skip
