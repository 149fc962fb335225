"""MPI: a recurrent network on several ranks, split over sequences, hidden units or layers.

The parts differ in their messages. Sequences are independent: none is sent until the end. A step of a unit needs h of
all units: an all-gather a step. A layer needs y of the layer below: a message a chunk of steps, and the ranks work like
a pipeline, each some steps behind the one before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from minigrad.display import plural
from minigrad.errors import require_int, require_word
from minigrad.nn.recurrent import Recurrent
from minigrad.ops.recurrence import CELLS, WEIGHTS
from minigrad.recurrent.runner import Arrays, NumPy, Runner, order, projected

SPLITS = ("batch", "hidden", "shared", "layers")


class MPI(Runner):
    """`MPI(module, comm, split)`: every rank of comm makes one, and calls it with the same x, state and lengths.

    Every rank is given the whole result, the same to the last bit. Splits:

    - "batch": each rank runs some sequences, with no message before the result is gathered.
    - "hidden": each rank computes some units of every layer; h is gathered from all after each step.
    - "shared": the same, with h in memory that the ranks of one machine share, and a barrier after each step.
    - "layers": each rank runs some layers and sends y, `chunk` steps at a time, to the rank of the next ones.

    inner runs the sequences or layers of a rank; the units of "hidden" and "shared" are computed by `step`. Raises
    ValueError on all ranks where their networks differ, or cannot be split so.
    """

    def __init__(
        self, module: Recurrent, comm: Any, split: str = "batch", *, chunk: int = 8,
        inner: Callable[[Recurrent], Runner] = NumPy,
    ):  # fmt: skip
        if not hasattr(comm, "rank"):
            raise TypeError(f"MPI: comm={comm!r:.60} must be a communicator of mpi4py, as mpi4py.MPI.COMM_WORLD.")
        if not callable(inner):
            raise TypeError(f"MPI: inner={inner!r:.60} must make a runner of a module, as mg.recurrent.OpenMP does.")
        self.comm: Any = comm
        self.rank, self.ranks = int(comm.rank), int(comm.size)
        self.split = require_word("MPI", "split", split, SPLITS)
        self.chunk = require_int("MPI", "chunk", chunk, 1)
        super().__init__(module)
        self._fits()
        self.inner = inner(module)
        if split in ("hidden", "shared"):
            self.weights = {at: [self._rows(w) for w in weights] for at, weights in self.weights.items()}

    def run(self, x: np.ndarray, states: Sequence[Arrays], lengths: np.ndarray | None) -> tuple[Any, list[Arrays]]:
        """y and the last states."""
        self._same({"the shape of x": x.shape, "lengths": lengths if lengths is None else [*map(int, lengths)]})
        if self.split == "batch":
            return self._sequences(x, states, lengths)
        return (self._pipeline if self.split == "layers" else super().run)(x, states, lengths)

    # --- sequences ---

    def _sequences(
        self, x: np.ndarray, states: Sequence[Arrays], lengths: np.ndarray | None
    ) -> tuple[np.ndarray, list[Arrays]]:
        """Each rank runs its sequences, which may be none."""
        own = self.share(x.shape[1])
        parts = [tuple(part[own] for part in state) for state in states]
        y, ends = self.inner.run(np.ascontiguousarray(x[:, own]), parts, None if lengths is None else lengths[own])
        last = self._gathered(np.array(ends), x.shape[1], axis=2)  # (layers * directions, parts, B, hidden)
        return self._gathered(y, x.shape[1], axis=1), [tuple(end) for end in last]

    def share(self, count: int, rank: int | None = None) -> slice:
        """The part of a rank, of this one if none is given: parts differ by one at most."""
        rank = self.rank if rank is None else rank
        return slice(count * rank // self.ranks, count * (rank + 1) // self.ranks)

    def _gathered(self, part: np.ndarray, count: int, axis: int) -> np.ndarray:
        """The parts of all ranks side by side along an axis that has `count` in all."""
        before, after = part.shape[:axis], part.shape[axis + 1 :]
        shares = [self.share(count, rank) for rank in range(self.ranks)]
        shapes = [(*before, own.stop - own.start, *after) for own in shares]
        sizes = [prod(shape) for shape in shapes]
        whole = np.empty(sum(sizes), part.dtype)
        self.comm.Allgatherv(np.ascontiguousarray(part), (whole, sizes))
        pieces = np.split(whole, np.cumsum(sizes)[:-1])
        return np.concatenate([piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)], axis)

    # --- hidden units ---

    def scan(self, x: np.ndarray, at: str, state: Arrays, lengths: np.ndarray | None) -> Arrays:
        """y (T, B, hidden) and the last state of a layer in one direction.

        h is (hidden, B) here: the rows of the ranks, one under the other, are what an all-gather makes. The product
        with x of all steps comes first. Made step by step while h is on its way, it takes longer than both: it reads
        its weights at every step, and MPI on a processor moves little while the rank computes.
        """
        batch, hidden = x.shape[1], self.module.hidden_size
        own, mine = self.share(hidden), [np.ascontiguousarray(part.T) for part in state]
        from_x = self.from_x(at, x)
        h, mine = mine[0], [part[own] for part in mine]
        with self._exchange((len(x), hidden, batch), x.dtype) as (y, send):
            for t in order(len(x), at):
                new = self.step(at, from_x[t], h, mine)
                if lengths is not None:
                    new = [np.where(t < lengths, after, before) for after, before in zip(new, mine, strict=True)]
                mine = new
                send(mine[0], t)
                h = y[t]
            ends = [self._gathered(part, hidden, axis=0).T.copy() for part in mine]
            whole = y.transpose(0, 2, 1).copy()  # the shared memory will be gone
        if lengths is not None:
            whole[np.arange(len(x))[:, None] >= lengths] = 0
        return whole, *ends

    def from_x(self, at: str, x: np.ndarray) -> np.ndarray:
        """W_ih x + b_ih of this rank's units for all steps, (T, gates * units, B)."""
        w_ih, _, b_ih, _ = self.weights[at]
        return np.ascontiguousarray(projected(x, w_ih, b_ih).transpose(0, 2, 1))

    def step(self, at: str, from_x: np.ndarray, h: np.ndarray, state: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The next state of this rank's units, (units, B), from h of all units, (hidden, B)."""
        _, w_hh, _, b_hh = self.weights[at]
        from_h = (w_hh @ h).T + (0 if b_hh is None else b_hh)
        return [part.T for part in CELLS[self.module.kind](from_x.T, from_h, *(part.T for part in state))]

    @contextmanager
    def _exchange(self, shape: tuple[int, ...], dtype: np.dtype) -> Iterator[tuple[np.ndarray, Callable[..., None]]]:
        """y (T, hidden, B), and send(h, t), after which y[t] has the h of all ranks."""
        if self.split == "hidden":
            y = np.empty(shape, dtype)
            yield y, lambda h, t: self.comm.Allgather(np.ascontiguousarray(h), y[t])
            return
        from mpi4py.MPI import Win

        window = Win.Allocate_shared(prod(shape) * dtype.itemsize * (self.rank == 0), dtype.itemsize, comm=self.comm)
        memory: Any = window.Shared_query(0)[0]
        y, own = np.frombuffer(memory, dtype).reshape(shape), self.share(shape[1])

        def send(h: np.ndarray, t: int) -> None:
            y[t, own] = h
            window.Sync()
            self.comm.Barrier()
            window.Sync()

        window.Lock_all()
        yield y, send
        window.Unlock_all()  # not after an error: the others would not come to free it, and it would never be heard
        window.Free()

    def _rows(self, weight: np.ndarray | None) -> np.ndarray | None:
        """The rows of this rank's units, of each gate."""
        if weight is None:
            return None
        gates, hidden = self.module.gates, self.module.hidden_size
        rows = weight.reshape(gates, hidden, -1)[:, self.share(hidden)]
        return np.ascontiguousarray(rows.reshape(-1, *weight.shape[1:]))

    # --- layers ---

    def _pipeline(
        self, x: np.ndarray, states: Sequence[Arrays], lengths: np.ndarray | None
    ) -> tuple[np.ndarray, list[Arrays]]:
        """Each rank runs its layers on chunk after chunk of steps, as they come from the rank of the layers below."""
        own, last = self.share(self.module.num_layers), self.ranks - 1
        ends = list(states[own])
        y = np.empty((*x.shape[:2], self.module.hidden_size), x.dtype)
        for t in range(0, len(x), self.chunk):
            steps = slice(t, t + self.chunk)
            if self.rank:
                self.comm.Recv(y[steps], self.rank - 1)
            part = y[steps] if self.rank else x[steps]
            left = None if lengths is None else np.clip(lengths - t, 0, len(part))
            for i, layer in enumerate(range(own.start, own.stop)):
                part, *end = self.inner.scan(part, f"_l{layer}", ends[i], left)
                ends[i] = tuple(end)
            if self.rank < last:
                self.comm.Send(np.ascontiguousarray(part), self.rank + 1)
            y[steps] = part
        self.comm.Bcast(y, last)
        return y, [end for each in self.comm.allgather(ends) for end in each]

    # --- checks ---

    def _weights_must_fit(self) -> None:
        """The ranks first agree, so that all of them raise where the weight of one does not fit."""
        self._same(self._described())
        super()._weights_must_fit()

    def _described(self) -> dict[str, Any]:
        """The split, the network, and each weight by its shape, dtype and a checksum of its bytes."""
        found = {"the split": f"{self.split!r} by {self.chunk}", "the network": f"{self.module} of {self.module.kind}"}
        for at in self.places:
            for name, w in zip(WEIGHTS, self.module.weights(at), strict=True):
                if w is not None:
                    found[name + at] = f"{w.shape} {w.dtype} with checksum {crc32(w.numpy().tobytes()):08x}"
        return found

    def _same(self, mine: Mapping[str, Any]) -> None:
        """Raise ValueError, on every rank, where something differs between the ranks."""
        each = self.comm.allgather(mine)
        for (name, value), (rank, other) in product(each[0].items(), enumerate(each)):
            if other.get(name) != value:
                raise ValueError(
                    f"MPI: {name} is {other.get(name)} on rank {rank} and {value} on rank 0. Every rank must make the "
                    "same network, with the weights of a file or of a seed, and call it with the same arguments."
                )

    def _fits(self) -> None:
        """Raise ValueError for a network that cannot be split so over these ranks."""
        hidden, layers, ranks = self.module.hidden_size, self.module.num_layers, self.ranks
        if self.split in ("hidden", "shared") and hidden % ranks:
            fit = [str(n) for n in range(1, hidden + 1) if hidden % n == 0]
            near = sorted({max(1, hidden // ranks) * ranks, (hidden // ranks + 1) * ranks})
            raise ValueError(
                f"MPI: {hidden} hidden units are {hidden / ranks:.1f} for each of {ranks} ranks. Take "
                f"{' or '.join(fit)} ranks, or {' or '.join(map(str, near))} units."
            )
        if self.split == "layers" and layers < ranks:
            raise ValueError(f"MPI: {plural(layers, 'layer')} cannot be split over {ranks} ranks; take {layers} ranks.")
        if self.split == "layers" and len(self.module.directions) > 1:
            raise ValueError(
                'MPI: split="layers" runs in one direction. Above a layer that reads backward, a rank would wait for '
                'the whole sequence, whose end it needs first: take split="batch" or "hidden".'
            )
