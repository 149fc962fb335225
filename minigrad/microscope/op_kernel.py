"""The launch of an op's kernel: its grid, block and arguments follow from the op's own inputs and parameters."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad.call import as_tensors
from minigrad.devices import check, get, through
from minigrad.devices.array import Array
from minigrad.devices.device import Arguments, Dim3, Launcher
from minigrad.devices.dtypes import has_gradient
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.microscope.record import Inspection
from minigrad.microscope.watch import Microscope
from minigrad.operators import OPS
from minigrad.tensor import Tensor


class OpKernel(NamedTuple):
    """A kernel, the op whose work it does, and its name among the op's kernels."""

    kernel: Kernel
    op: Any  # an Op
    name: str

    @staticmethod
    def find(kernel: Kernel) -> "OpKernel | None":
        """The op that has this kernel, or one that a reader wrote in its place; None where there is none."""
        file = (kernel.source.before or kernel.source).name
        for op in OPS.values():
            for name, other in op.kernels.items():
                if kernel.grid and (kernel.name, file) == (other.name, other.source.name):
                    return OpKernel(kernel, op, name)
        return None

    @property
    def in_gradient(self) -> bool:
        """True for a kernel that computes gradients."""
        return "backward" in self.name

    def run(self, launcher: Launcher, args: Sequence[Any], named: Mapping[str, Any], dy: Any = None) -> None:
        """Run the op on `sim` with this kernel in its role, forward and, for a kernel of the gradient, backward.

        Every launch goes through the launcher. named: tunables of the kernel and parameters of the op. dy: the
        gradient of the output, by default ones. Raises what the op raises.
        """
        tunables = {key: value for key, value in named.items() if key in self.kernel.tunables}
        params = {key: value for key, value in named.items() if key not in tunables}
        if unknown := [key for key in params if key not in self.op.inputs.params]:
            takes = ", ".join([*self.op.inputs.params, *self.kernel.tunables]) or "no named arguments"
            raise LaunchError(
                f"{self.kernel.name} knows no {unknown[0]}=; as a kernel of {self.op.name} it takes {takes}."
            )
        if dy is not None and not self.in_gradient:
            raise LaunchError(f"{self.kernel.name} computes no gradient, so it takes no dy=.")
        op = self.in_its_role(self.kernel.using(**tunables) if tunables else self.kernel)
        inputs, params = op.inputs.split(tensors_on_sim(args), params)
        arrays = [tensor.array for tensor in as_tensors(op.name, inputs, op.integers)]
        with through(launcher):
            y, pull = op.pullback(arrays, params, tuple(has_gradient(array.dtype) for array in arrays))
            if self.in_gradient:
                pull(upstream(y, dy))

    def inspect(self, seen: "FirstLaunch", args: Sequence[Any], named: Mapping[str, Any], dy: Any) -> Inspection:
        """The record of the kernel's first launch. Raises LaunchError where it has none for such inputs."""
        self.run(seen, args, named, dy)
        if seen.record is None:
            raise self.not_launched([record.kernel for record in seen.launches])
        return seen.record

    def in_its_role(self, kernel: Kernel) -> Any:
        """The op through this kernel, without the fast ones that would replace it."""
        op = self.op.with_kernel(self.name, kernel)
        if not self.in_gradient:
            whole = next((name for name in op.kernels if self.name.startswith(f"forward_{name}_")), "")
            own = "" if self.name.startswith("forward_") else self.name
            return op.using(whole or own) if whole or own else op
        roles = [role for role, name in self.op.fast.items() if name == self.name]
        roles = roles or [role for role in op.kernels if "backward" in role and self.name.endswith(role)]
        return op.with_kernels(op.kernels, dict.fromkeys(roles, self.name))

    def not_launched(self, launched: Sequence[str]) -> LaunchError:
        """The error for inputs for which the op launches other kernels, or none."""
        if not launched:
            return LaunchError("nothing to see: the launch has no blocks, as one of its sizes is 0.")
        names = ", ".join(dict.fromkeys(launched))
        return LaunchError(
            f"{self.kernel.name} is not launched for inputs like these: {self.op.name} takes {names}. Choose other "
            "inputs, or give grid= and block= and the kernel's own arguments."
        )


class FirstLaunch(Microscope):
    """The microscope that looks for the first launch of one kernel, and keeps its outputs."""

    def __init__(self, kernel: Kernel, blocks: int, outputs: tuple[str, ...]):
        super().__init__(blocks, reset=True)
        self._kernel, self._required = kernel, outputs
        self.record: Inspection | None = None

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Watch a launch; of the first one of the kernel, keep the record with its outputs."""
        first = name == self._kernel.name and self.record is None
        self.outputs = self._required if first else ()
        super().launch(module, name, grid, block, shared, arguments)
        if first:
            self.record, written = self.launches[-1], self._kernel.outputs
            self.record.outputs.update((key, array.numpy()) for key, array in arguments.arrays if key in written)


def upstream(y: Array, dy: Any) -> Array:
    """The gradient of the output y as an array on `sim`: ones, or dy. Raises LaunchError for another shape."""
    given = np.ones(y.shape, y.dtype) if dy is None else np.asarray(tensors_on_sim(dy)).astype(y.dtype)
    if given.shape != y.shape:
        raise LaunchError(f"dy has shape {given.shape}, and the output has {y.shape}; make them equal.")
    return Array.upload(y.device, given)


def tensors_on_sim(args: Any) -> Any:
    """Arguments of an op with arrays and tensors moved to `sim`, within lists too. Raises LaunchError for a GPU's."""
    if isinstance(args, list | tuple):
        return type(args)(map(tensors_on_sim, args))
    if isinstance(args, np.ndarray):
        return Tensor(Array.upload(get(check("sim")), args))
    if not isinstance(args, Tensor):
        return args
    not_on_gpu(args.array)
    return args.detach().to("sim")


def not_on_gpu(array: Any) -> None:
    """Raise LaunchError for an array in the memory of a GPU."""
    if isinstance(array, Array) and array.device.is_gpu:
        name = array.device.name
        raise LaunchError(f"the microscope looks at kernels on sim, and an array is on {name}. Use x.to('sim').")
