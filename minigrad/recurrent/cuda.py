"""The CUDA runner: from a launch for each step to one persistent launch for a sequence, `cuda/recurrent/*.cu`."""

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import copied
from minigrad.errors import require_word
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.nn.recurrent import Recurrent, affine, stack
from minigrad.operators import OPS
from minigrad.ops.recurrence import CELLS, DIRECTIONS
from minigrad.recurrent.runner import Arrays, Runner, order
from minigrad.recurrent.tile import (
    ARITHMETIC,
    CLUSTER,
    FEWEST,
    KS,
    SEQS,
    SPLITS,
    TENSOR_CORES,
    THREADS,
    WARP,
    Layers,
    Room,
    Tile,
    choose,
)
from minigrad.rounding import current
from minigrad.simulator.runtime import MAX_RESIDENT
from minigrad.tensor import Tensor

RUNGS = ("steps", "projected", "persistent", "cluster", "wavefront")
SHARED = 227 * 1024  # bytes that a block may ask for on Hopper


@cache
def kernels(kind: str, on_gpu: bool) -> dict[str, Kernel]:
    """The kernels for a cell: by rung, by the kind of their tile, or by the arithmetic of tensor cores.

    On a GPU clusters do not wait for each other; on `sim`, which has none, their blocks do.
    """
    cell = {"CELL": [*CELLS].index(kind)}
    step = partial(
        Kernel, "recurrent/step.cu", grid=("hidden/UNITS", "batch"), block=("32", "UNITS"), sizes="hidden batch",
        defines=cell, UNITS=(8, 4, 2, 1, 16, 32),
    )  # fmt: skip
    made = {"steps": step(name="recurrent_step"), "projected": step(name="recurrent_step_projected")}
    blocks = ("columns", "groups", "layers"), ("32", "warps"), "columns groups layers warps bytes"
    threads = tuple(range(WARP, THREADS + 1, WARP))
    made["registers"] = Kernel(
        "recurrent/persistent.cu", "recurrent_persistent", *blocks, cell, None, "bytes",
        cooperative=True, ROWS=(1, 2, 3, 4), K=KS, SEQS=SEQS, SPLIT=SPLITS, THREADS=threads,
    )  # fmt: skip
    made["cluster"] = Kernel(
        "recurrent/persistent_cluster.cu", "recurrent_persistent_cluster", *blocks, cell, None, "bytes",
        cooperative=not on_gpu, ROWS=(1, 2, 3, 4), K=KS, SEQS=SEQS, SPLIT=SPLITS,
        THREADS=threads, CLUSTER=tuple(range(CLUSTER, 0, -1)),
    )  # fmt: skip
    bounded = {"3xtf32": "Half3"} if kind != "relu" else {}  # h lies within +-1
    for name, arithmetic in (TENSOR_CORES | bounded).items():
        made[name] = Kernel(
            "recurrent/persistent_tensor_cores.cu", "recurrent_persistent_tensor_cores", *blocks,
            {**cell, "ARITHMETIC": arithmetic}, None, "bytes",
            cooperative=True, MROWS=(2, 1, 4), K=KS, EIGHTS=(1, 2, 4, 8), THREADS=threads,
        )  # fmt: skip
    return made


class CUDA(Runner):
    """Runs a network by kernels, on `cuda` or `sim`: the module must be there, and so must x.

    rung: "steps", a launch for each step; "projected", the same with the products with x made by one matrix product
    ahead; "persistent", one launch for a sequence, whose blocks keep their weights and meet at a barrier each step;
    "cluster", the same within clusters of blocks, which hand on h in their shared memory; "wavefront", one launch for
    all layers, each a step behind the one below. By `mg.precision` the products with x that are made ahead round their
    factors, and "persistent" and "wavefront" use tensor cores: in TF32 by halves, unless the cell is relu, so that
    weights and a first state beyond 65504 become infinite. `mg.graph(lambda x: runner(x)[0])` captures the launches of
    a sequence as a graph. `CUDA["meet"]` shows a part of the kernels, and `CUDA.parts()` has all of them by title.
    """

    host = False
    files = ("recurrent/step.cu", "recurrent/registers.cuh", "recurrent/persistent.cuh", "grid_barrier.cuh")

    def __init__(self, module: Recurrent, rung: str = "persistent"):
        super().__init__(module)
        self.rung = require_word("CUDA", "rung", rung, RUNGS)
        if rung == "wavefront" and len(module.directions) > 1:
            raise ValueError(
                "CUDA: a layer above both directions reads the end of the sequence first, so layers cannot run as a "
                "wavefront. Choose rung='persistent'."
            )
        self.device = self.weights[self.places[0]][0].device
        if rung == "cluster":
            must_have_clusters(self.device.arch)
        self.kernels = kernels(module.kind, self.device.is_gpu)
        self._stacked: dict[tuple[str, ...], list[Array]] = {}  # weights by places
        self._whole: dict[tuple[int, int], Array] = {}  # the lengths where none are given, by steps and batch
        self._none = Array.zeros(self.device, (module.gates * module.hidden_size,), self.dtype)  # for no bias

    def run(self, x: Array, states: Sequence[Arrays], lengths: np.ndarray | None) -> tuple[Any, list[Arrays]]:
        """y and the last states."""
        given: Any = self._uploaded(x.shape[0], x.shape[1], lengths)
        if self.rung != "wavefront":
            return super().run(x, states, given)
        return self.persistent(x, self.places, states, given, backward=False)

    def scan(self, x: Array, at: str, state: Arrays, lengths: Any) -> Arrays:
        """y (T, B, hidden) and the last state of the layer and direction at this place."""
        if self.rung in ("persistent", "cluster"):
            y, (end,) = self.persistent(x, [at], [state], lengths, at.endswith(DIRECTIONS[1]))
            return y, *end
        steps, batch, inputs = x.shape
        hidden, like = self.module.hidden_size, (self.device, state[0].shape, self.dtype)
        w_ih, w_hh, b_ih, b_hh = self.filled(at)
        given = (self.projected(x, at),) if self.rung == "projected" else (x, w_ih, b_ih)
        launch = self.kernels[self.rung].launch(hidden, batch)
        h, following, c = copied(state[0]), Array.empty(*like), copied(state[-1])
        y = Array.empty(self.device, (steps, batch, hidden), self.dtype)
        extents = (hidden,) if self.rung == "projected" else (inputs, hidden)
        for t in order(steps, at):
            launch(*given, w_hh, b_hh, lengths, h, following, c, y, t, *extents)
            h, following = following, h
        return (y, h, c)[: 1 + self.module.parts]

    def persistent(
        self, x: Array, places: Sequence[str], states: Sequence[Arrays], lengths: Array, backward: bool
    ) -> tuple[Array, list[Arrays]]:
        """One launch for the layers at these places, the first of which reads x."""
        module, layers, (steps, batch, _) = self.module, len(places), x.shape
        hidden = module.hidden_size
        launch, tile = self.planned(batch, layers)
        h, c = (stacked([copied(state[part]) for state in states]) for part in (0, -1))  # the kernel writes into them
        y = Array.empty(self.device, (steps, batch, hidden), self.dtype)
        moved, arrived = (Array.zeros(self.device, (n,), np.dtype(np.uint32)) for n in (tile.words, tile.groups))
        extents = steps, int(backward), batch, hidden
        weights = self.stacked_weights(places)
        launch(self.projected(x, places[0]), *weights, lengths, h, c, y, moved, arrived, *extents)
        ends = [array.reshape((layers * batch, hidden)) for array in (h, c)[: module.parts]]
        return y, [tuple(copied(end.rows(i * batch, batch)) for end in ends) for i in range(layers)]

    def stacked_weights(self, places: Sequence[str]) -> list[Array]:
        """W_ih, b_ih, W_hh and b_hh of all these layers, each in one array, made once."""
        key = tuple(places)
        if key not in self._stacked:
            filled = [self.filled(at) for at in places]
            above = [*filled[1:2], *filled[1:]] or filled  # the first layer's products with x are made ahead
            rows = [[each[i] for each in (filled if i % 2 else above)] for i in range(4)]
            w_ih, w_hh, b_ih, b_hh = map(stacked, rows)
            self._stacked[key] = [w_ih, b_ih, w_hh, b_hh]
        return self._stacked[key]

    def planned(self, batch: int, layers: int) -> tuple[Launch, Tile]:
        """The launch of a persistent kernel in the precision of `mg.precision`, and its tile."""
        kind = "cluster" if self.rung == "cluster" else "registers"
        worth = batch >= FEWEST or current() != "3xtf32"
        if self.dtype == np.float32 and current() in ARITHMETIC and kind == "registers" and worth:
            kind = "half" if current() == "tf32" and self.module.kind != "relu" else current()
        work = Layers(self.module.hidden_size, batch, self.module.gates, layers, self.dtype.itemsize)
        tile = choose(work, kind, self.room())
        return self.kernels[kind].launch(*tile.sizes, **tile.values), tile

    def room(self) -> Room:
        """The blocks and threads that run at once: a block of any size on each multiprocessor, or those of `sim`."""
        blocks = self.device.processors
        return Room(blocks, blocks * THREADS if self.device.is_gpu else MAX_RESIDENT, SHARED)

    def _uploaded(self, steps: int, batch: int, lengths: np.ndarray | None) -> Array:
        """The lengths on the device. A graph sends nothing there, so whole lengths stay from the first call on."""
        if lengths is not None:
            return Array.upload(self.device, lengths.astype(np.int32))
        key = steps, batch
        if key not in self._whole:
            self._whole[key] = Array.upload(self.device, np.full(batch, steps, np.int32))
        return self._whole[key]

    def filled(self, at: str) -> list[Array]:
        """W_ih, W_hh, b_ih and b_hh at a place, zeros for a bias that is left out."""
        return [self._none if w is None else w for w in self.weights[at]]

    def projected(self, x: Array, at: str) -> Array:
        """x W_ih^T + b_ih for all steps at once.

        In 3xTF32 as a convolution of 1 x 1 over an image of steps x sequences: matmul has no wgmma for it, conv2d has.
        """
        (steps, batch, inputs), (w_ih, _, b_ih, _) = x.shape, self.filled(at)
        if current() == "3xtf32" and x.dtype == np.float32 and inputs % 32 == w_ih.shape[0] % 64 == 0:
            image = Array(x.device, (1, inputs, steps, batch), x.dtype, x.buffer, x.address, True)
            kernels = w_ih.reshape((*w_ih.shape, 1, 1))
            made: Any = OPS["conv2d"](Tensor(image), Tensor(kernels), Tensor(b_ih)).array
            return Array(x.device, (steps * batch, w_ih.shape[0]), x.dtype, made.buffer, made.address)
        y: Any = affine(Tensor(x.reshape((steps * batch, inputs))), Tensor(w_ih).T, Tensor(b_ih)).array
        return y

    def concatenate(self, ys: Sequence[Array]) -> Array:
        """Forward next to backward."""
        joined: Any = OPS["concatenate"]([Tensor(y) for y in ys], axis=2).array
        return joined

    def stack(self, ends: Sequence[Array]) -> Array:
        """A part of the last state, of all layers and directions along a new first axis."""
        return stacked(ends)


def must_have_clusters(arch: str) -> None:
    """Raise ValueError for a GPU before Hopper; arch is "" for `sim`."""
    if arch and int(re.sub(r"\D", "", arch)) < 90:
        raise ValueError(
            f"CUDA: rung='cluster' needs clusters of blocks, which GPUs of {arch} do not have: those of sm_90 are the "
            "first. Choose rung='persistent'."
        )


def stacked(arrays: Sequence[Array]) -> Array:
    """The arrays, of one shape, along a new first axis."""
    if len(arrays) == 1:
        return arrays[0].reshape((1, *arrays[0].shape))
    made: Any = stack([Tensor(array) for array in arrays]).array
    return made
