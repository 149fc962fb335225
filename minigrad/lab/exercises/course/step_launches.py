"""09: the launches of a training step, counted on the tape before they are measured."""

import numpy as np

from minigrad import data, nn, optim
from minigrad.devices.random import manual_seed
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.lab.memory import Timeline, timeline
from minigrad.op import OPS
from minigrad.tensor import Tensor


def measure() -> Timeline:
    """The launches of one step of the network of notebook 09, on `sim`."""
    manual_seed(0)
    layers = nn.Linear(64, 128, device="sim"), nn.Linear(128, 10, device="sim")
    model = nn.Sequential(layers[0], OPS["relu"], layers[1])
    optimizer = optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

    def step(x: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        OPS["cross_entropy"](model(x), labels).backward()
        optimizer.step()

    images, labels = np.random.default_rng(0).random((64, 64), np.float32), np.arange(64) % 10
    (batch,) = data.batches(images, labels, device="sim")
    step(*batch)  # the optimizer makes its arrays
    return timeline(step, *batch)


step_launches = Prediction(
    "09",
    "step_launches",
    task="""
**How many launches is a step?** Walk down the tape above and back up, and count the kernels of one whole step: forward,
backward, update. You need three facts. The loss takes two launches, one for the losses of the rows and one for their
mean; its gradient takes one. A bias is added by a launch of its own, and its gradient is a sum over the rows. One
launch updates up to eight tensors of parameters.
""",
    solution="""
#> products = ...  # launches that multiply two matrices
products = 5
#<
#> updates = ...  # launches that change parameters
updates = 1
#<
#> launches = ...  # all launches of a step
launches = 15
#<
""",
    hints=[
        "forward: two layers with a product and a bias each, one relu between them, and the loss.",
        "a product c = a b has two gradients, da = dc b^T and db = a^T dc. Each is a product, if it is wanted at all.",
        "who wants the gradient of the pictures? They are a constant on the tape.",
        "forward 2 + 2 + 1 + 2. Backward: the loss, two sums for biases, one relu, and the products. Then the update.",
    ],
    wrong=[
        Wrong("products = 5", "products = 6", "value",
              "The pictures are constant and need no gradient: going back, the first layer has one product."),
        Wrong("products = 5", "products = 2", "value", "These are the forward ones. There are more going back."),
        Wrong("products = 5", "products = 4", "value",
              "Going back, the second layer has two products: for its weights, and for the layer before."),
        Wrong("products = 5", "products = 3", "value", "These are the backward ones. There are two going forward."),
        Wrong("updates = 1", "updates = 4", "value", "There are four tensors of parameters; one launch takes eight."),
        Wrong("launches = 15", "launches = 7", "value", "This is the way forward alone."),
        Wrong("launches = 15", "launches = 14", "value", "One is missing. Did you count loss and update fully?"),
        Wrong("launches = 15", "launches = 16", "value", "One too many. Is there a product that nothing needs?"),
        Wrong("launches = 15", "launches = 18", "value", "All four parameters are updated by one launch."),
    ],
    run=measure,
    truth=lambda record: {
        "products": sum("matmul" in name for name in record.kernels),
        "updates": sum("sgd" in name for name in record.kernels),
        "launches": len(record.kernels),
    },
    show=lambda record: record,
)  # fmt: skip
