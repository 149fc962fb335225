"""11: the weights and the multiplications of a layer, at the beginning of ResNet-18 and at its end."""

import numpy as np

from minigrad import nn
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.operators import OPS

FIRST, LAST = (64, 56), (512, 7)  # channels, and rows of their images


def measure() -> dict[str, int]:
    """The weights of both layers, and their FLOPs for an image, as the op counts them."""
    found: dict[str, int] = {}
    for name, (channels, rows) in (("first", FIRST), ("last", LAST)):
        weight = nn.Conv2d(channels, channels, 3, padding=1, bias=False, device="numpy").weight
        images = np.empty((1, channels, rows, rows), np.float32)
        flops, _ = OPS["conv2d"].cost(images, weight, padding=1)
        found |= {name: weight.size, f"{name}_flops": flops}
    return found


stage_sizes = Prediction(
    "11",
    "stage_sizes",
    task="""
**An eighth as wide, eight times the channels.** The first stage of ResNet-18 has convolutions of 3 x 3 from 64
channels to 64, on images of 56 x 56. Its last stage has convolutions of 3 x 3 from 512 channels to 512, on images of 7
x 7. None has a bias. Predict

1. the number of weights of such a layer in the first stage, and in the last one;
2. the multiplications that a layer of the last stage needs for an image, as a multiple of those in the first stage.
   Count those with the border of zeros, too.
""",
    solution="""
#> first = ...  # weights of a layer in the first stage
first = 64 * 64 * 9
#<
#> last = ...  # weights of a layer in the last stage
last = 512 * 512 * 9
#<
#> times = ...  # multiplications: last stage / first stage
times = 1
#<
""",
    hints=[
        "each kernel has a window of 3 x 3 for every channel of its input, and there is a kernel for every channel of "
        "the output.",
        "each output is a sum over the 9 places of the window and all channels of the input. How many outputs?",
        "in the last stage a layer has eight times as many channels, as input and as output. Its images have an eighth "
        "of the rows, and of the columns.",
    ],
    wrong=[
        Wrong("first = 64 * 64 * 9", "first = 64 * 9", "value",
              "Every kernel looks at all 64 channels of its input: another factor of 64."),
        Wrong("last = 512 * 512 * 9", "last = 512 * 9", "value",
              "Every kernel looks at all 512 channels of its input: another factor of 512."),
        Wrong("first = 64 * 64 * 9", "first = 64 * 64 * 9 + 64", "value", "There is no bias: the batch norm has one."),
        Wrong("first = 64 * 64 * 9", "first = 64 * 64 * 9 * 56 * 56", "value",
              "These are its multiplications: the weights are the same at all places of the image."),
        Wrong("times = 1", "times = 64", "value",
              "There are 64 times as many weights. But each of them is used at fewer places: 49 in place of 3136."),
        Wrong("times = 1", "times = 1 / 64", "value",
              "There are 64 times fewer places. But at each of them 64 times as many weights are used."),
        Wrong("times = 1", "times = 8", "value",
              "There are eight times as many channels as input and as output: 64 times as many weights, at 64 times "
              "fewer places."),
    ],
    run=measure,
    truth=lambda found: {
        "first": found["first"], "last": found["last"], "times": found["last_flops"] / found["first_flops"],
    },
    source="Counted",
)  # fmt: skip
