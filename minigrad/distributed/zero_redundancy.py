"""ZeroRedundancyOptimizer: each rank keeps the states of its part of every parameter, and updates that part alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.devices.state import fitting
from minigrad.distributed.host import backend_of
from minigrad.distributed.world import init
from minigrad.operators import OPS
from minigrad.optim.optimizer import Optimizer
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

ALIKE = "Every rank must give the same parameters and settings, and a gradient to the same of them."


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose states are split over the ranks: `ZeroRedundancyOptimizer(parameters, mg.optim.Adam, lr=0.1)`.

    Of the elements of each parameter, in C order, rank r has part r of `size()` parts of one length, the last of them
    filled up with zeros. `step()` sends each rank the mean of all ranks' gradients for its part (reduce_scatter),
    updates it by `local`, an optimizer of that class for the parts, and sends all parts to all ranks (all_gather): as
    many bytes as the mean of whole gradients. So backward need not take that mean: run it within `DataParallel`'s
    `no_sync()`. If it has, or gradients were clipped after it, the mean of equal gradients changes nothing.

    The update must act element by element, as those of SGD, Adam and AdamW do. Settings such as `lr` are those of
    `local`. Source: Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models, 2020.
    """

    parameters: tuple[Tensor, ...]
    local: Optimizer

    def __init__(self, parameters: Iterable[Tensor], optimizer_class: type[Optimizer], **settings: Any):
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            wanted = "a class of optimizers, such as mg.optim.Adam"
            raise TypeError(f"ZeroRedundancyOptimizer takes {wanted}; got {optimizer_class!r:.60}.")
        whole = optimizer_class(parameters, **settings).parameters  # checked; no state is made yet
        parts = [Tensor(self._part(p).array, requires_grad=True) for p in whole]
        vars(self).update(parameters=whole, local=optimizer_class(parts, **settings))

    def __getattr__(self, name: str) -> Any:
        """A setting of the local optimizer."""
        if name in ("local", "parameters"):  # not made yet
            raise AttributeError(name)
        return getattr(self.local, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.local, name, value)

    @property
    def settings(self) -> tuple:
        """Those of the local optimizer."""
        return self.local.settings

    def __repr__(self) -> str:
        return f"{super().__repr__()}; {type(self.local).__name__}'s states split over {init().size} ranks"

    def step(self) -> None:
        """Update every parameter that has a gradient, by the mean of the gradients of all ranks.

        Raises ValueError on every rank, before anything has changed, where a parameter has one on some ranks only.
        """
        grads = [f" with{'out' * (p.grad is None)} a gradient" for p in self.parameters]
        init().agree("ZeroRedundancyOptimizer.step", *self._described(grads), way_out=ALIKE)
        with no_grad():
            for p, part in zip(self.parameters, self.local.parameters, strict=True):
                part.array = self._part(p).array  # which may have been loaded or moved since the last step
            for backend, pairs in self._messages():
                joined = OPS["concatenate"](*[_rows(p.grad) for p, _ in pairs], axis=1)
                mine = Tensor(backend.reduce_scatter(joined.array, "mean"))
                for (_, part), grad in zip(pairs, _columns(mine, pairs), strict=True):
                    part.grad = grad.reshape(part.shape)
            self.local.step()
            for backend, pairs in self._messages():
                mine = OPS["concatenate"](*[part for _, part in pairs])
                for (p, _), rows in zip(pairs, _columns(Tensor(backend.all_gather(mine.array)), pairs), strict=True):
                    p.assign(rows.reshape(-1)[: p.size].reshape(p.shape))
        self.local.zero_grad()

    def state_dict(self) -> dict[str, np.ndarray]:
        """The state of the whole optimizer, as one without ranks gives it. All ranks call it, and all have it."""
        held = [f" with{'out' * (not states)} a state" for states in self.local._states]
        init().agree("ZeroRedundancyOptimizer.state_dict", *self._described(held), way_out=ALIKE)
        saved, whole = self.local.state_dict(), self._start_of_all()
        for name in filter(whole.__contains__, saved):  # in one order on all ranks, which a set has not
            p = self.parameters[int(name.partition(".")[0])]
            if whole[name].shape == p.shape:  # a number for each element; others, as a count of steps, are alike
                every = backend_of("numpy").all_gather(saved[name])
                saved[name] = every.reshape(-1)[: p.size].reshape(p.shape)
        return saved

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict()` of this class with any number of ranks, or of the optimizer without ranks.

        Each rank takes its parts; nothing is sent. Raises KeyError or ValueError; then nothing has changed.
        """
        whole, settings = self._start_of_all(), {name: np.array(value) for name, value in self.settings}
        new = fitting("ZeroRedundancyOptimizer.load_state_dict", state, settings | whole, optional=whole)
        for name in filter(whole.__contains__, [*new]):
            p = self.parameters[int(name.partition(".")[0])]
            if whole[name].shape == p.shape:
                new[name] = self._part(Tensor(new[name])).numpy()
        self.local.load_state_dict(new)

    def _start_of_all(self) -> dict[str, np.ndarray]:
        """The states of whole parameters before the first step, by their names in a state."""
        starts = [zip(self.local.states, self.local._start(p.array), strict=True) for p in self.parameters]
        return {f"{i}.{name}": x for i, named in enumerate(starts) for name, x in named}

    def _described(self, more: Sequence[str]) -> Iterator[str]:
        """The settings in words, then each parameter with what there is to say of it."""
        yield from (f"{name}={value}" for name, value in self.settings)
        for i, (p, text) in enumerate(zip(self.parameters, more, strict=True)):
            yield f"parameter {i}, {p.dtype} {p.shape}{text}"

    def _messages(self) -> Iterator[tuple[Any, list[tuple[Any, Tensor]]]]:
        """Parameters with a gradient, each with its part, in lists that travel together: of one device and dtype."""
        kinds: dict[tuple, list[tuple[Any, Tensor]]] = {}
        for p, part in zip(self.parameters, self.local.parameters, strict=True):
            if p.grad is not None:
                kinds.setdefault((p.device, p.dtype), []).append((p, part))
        return ((backend_of(device), pairs) for (device, _), pairs in kinds.items())

    @staticmethod
    def _part(x: Tensor) -> Tensor:
        """This rank's part of the elements, a copy."""
        with no_grad():
            return _rows(x)[init().rank : init().rank + 1].reshape(-1) + 0


def _rows(x: Any) -> Tensor:
    """The elements in C order as (ranks, elements of a part), filled up with zeros."""
    ranks, flat = init().size, x.reshape(-1)
    each = -(-flat.size // ranks)
    if missing := each * ranks - flat.size:
        flat = OPS["pad"](flat, (0, missing))
    return flat.reshape(ranks, each)


def _columns(joined: Tensor, pairs: Sequence[tuple[Any, Tensor]]) -> Iterator[Tensor]:
    """The columns (ranks, elements of a part) of each part."""
    ends = np.cumsum([part.size for _, part in pairs]).tolist()
    return (joined[:, end - part.size : end] for end, (_, part) in zip(ends, pairs, strict=True))
