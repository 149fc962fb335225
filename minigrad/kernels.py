"""The kernels of an op: by name, with other block sizes, or with one of your own among them."""

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from minigrad.kernel import Kernel
from minigrad.memo import Memo

AnOp = TypeVar("AnOp", bound="Kernels")


class Kernels:
    """The part of an Op that holds its kernels, and what was planned with them."""

    name: str
    fast: Mapping[str, str]
    _plans: Memo

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The op's own kernels by name. With others, what was planned is worked out anew."""
        return self._kernels

    @kernels.setter
    def kernels(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels, self._plans = MappingProxyType(dict(kernels)), Memo()
        self.running = {**kernels, **{role: kernels[name] for role, name in self.fast.items()}}

    def using(self: AnOp, variant: str | None = None, **tunables: int) -> AnOp:
        """The same op through another kernel or block size: `matmul.using("naive")`, `relu.using(BLOCK=64)`."""
        other = copy.copy(self)
        kernels = {
            name: kernel.using(**{key: value for key, value in tunables.items() if key in kernel.tunables})
            for name, kernel in self.kernels.items()
        }
        known = {key for kernel in kernels.values() for key in kernel.tunables}
        if unknown := [key for key in tunables if key not in known]:
            raise ValueError(f"{self.name} has no tunable {unknown[0]}; it has {', '.join(sorted(known)) or 'none'}.")
        if variant is not None:
            if "backward" in self._kernel_name(variant):
                raise ValueError(f"{self.name}: {variant} is a kernel of the gradient; choose one of the forward pass.")
            kernels["forward"] = kernels[variant]
        other.fast = {} if variant or tunables else self.fast
        other.kernels = kernels
        return other

    def with_kernel(self: AnOp, name: str, kernel: Kernel) -> AnOp:
        """The same op with another kernel under that name, `matmul.with_kernel("tiled", mine)`: in all its roles.

        The fast kernels stand back, so that it runs; where it is one of them, it keeps its own roles.
        """
        other, old = copy.copy(self), self[name]
        other.fast = {role: fast for role, fast in self.fast.items() if self.kernels[fast] is old}
        other.kernels = {key: kernel if each is old else each for key, each in self.kernels.items()}
        return other

    def __getitem__(self, kernel: str) -> Kernel:
        """One of the op's kernels: `matmul["tiled"]` shows its source."""
        return self.kernels[self._kernel_name(kernel)]

    def _kernel_name(self, name: str) -> str:
        if not isinstance(name, str) or name not in self.kernels:
            raise KeyError(f"{self.name} has no kernel {name!r}; it has {', '.join(self.kernels)}.")
        return name
