"""NVIDIA Warp's gradients of the ladder's kernels, on minigrad's arrays and stream."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import copied
from minigrad.lab.bench.costs import Ratio
from minigrad.lab.bench.measure import Reference
from minigrad.lab.bench.timer import timer

REPEATS = 9
THREADS: dict[str, Callable[[dict[str, Any]], int]] = {  # from the arguments; other kernels launch n threads
    "laplacian": lambda args: args["rows"] * args["columns"],
    "matmul_tiled": lambda args: args["m"] * args["n"],
    "nbody": lambda args: args["p"].size // 3,
    "lbm_d2q9": lambda args: args["width"] * args["height"],
    "cross_sections": lambda args: args["lookups"],
    "multipole_cold": lambda args: args["lookups"],
}
TOLERANCE = 1e-3  # of the largest element of a gradient


class Warp:
    """Warp returns no gradient of a scalar parameter; those of arrays are compared before any is timed."""

    def __init__(self, device: Any):
        try:
            import warp
        except ImportError as error:
            raise ImportError(
                "against warp: NVIDIA Warp is not installed. pip install 'minigrad-cuda[bench]'"
            ) from error
        warp.config.log_level = warp.LOG_WARNING
        from minigrad.lab.bench.rivals import warp_kernels

        self.warp, self.device, self.version = warp, device, warp.__version__
        self.kernels = {key: k for key, k in vars(warp_kernels).items() if isinstance(k, warp.Kernel)}
        gpu = device.is_gpu
        self.place = warp.get_device(f"cuda:{device.number}" if gpu else "cpu")
        self.stream = warp.Stream(self.place, cuda_stream=device.stream.handle) if gpu else None

    def ratio(self, subject: Any, size: int, work: int) -> Ratio | str | None:
        """Warp's times, the reason why there are none, or None for a kernel that is not written for Warp."""
        if subject.name not in self.kernels:
            return None
        if not (off := self.error(subject)) <= TOLERANCE:
            return f"wrong: off by {off:.2g}"
        (args, _, _), dy = subject.at(size, work)
        forward, backward, _ = self.calls(subject, args, dy)
        return Ratio(**timer().interleaved({"primal": forward, "adjoint": backward}, REPEATS))

    def error(self, subject: Any) -> float:
        """The largest distance of Warp's gradients from those of the adjoint, as a share of the largest element."""
        (args, grid, block), dy = subject.at(subject.rung.checked, subject.rung.work)
        wanted = dict(zip(subject.adjoint.wrt, subject.adjoint.vjp(*args, dy=dy, grid=grid, block=block), strict=True))
        forward, backward, gradients = self.calls(subject, args, dy)
        forward()
        backward()
        names = [name for name in gradients if name in wanted and wanted[name].shape]
        return float(np.max([Reference(self.device, wanted[name].numpy()).error(gradients[name]) for name in names]))

    def calls(self, subject: Any, args: list, dy: list[Array]) -> tuple[Callable, Callable, dict[str, Array]]:
        """Functions that launch Warp's kernel, and its adjoint after clearing gradients; the gradients by name."""
        kernel, adjoint = self.kernels[subject.name], subject.adjoint
        named = dict(zip((p.name for p in adjoint.file.kernel.params), args, strict=True))
        labels = [arg.label for arg in kernel.adj.args]
        upstream = dict(zip(adjoint.outputs, map(copied, dy), strict=True))
        if "out" in labels:  # Warp's version of a kernel in place writes to an array of its own
            (name,) = upstream
            named["out"], upstream = copied(named[name]), {"out": upstream[name]}
        floats = {k: x for k, x in named.items() if k in labels and isinstance(x, Array) and x.dtype.kind == "f"}
        gradients = {
            name: upstream[name] if name in upstream else Array.zeros(self.device, x.shape, x.dtype)
            for name, x in floats.items()
        }
        arguments = [self._argument(named[label], gradients.get(label)) for label in labels]
        threads = THREADS[subject.name](named) if subject.name in THREADS else named["n"]
        launch = partial(self.warp.launch, kernel, threads, arguments, device=self.place, stream=self.stream)
        cleared = [d for name, d in gradients.items() if name not in upstream]

        def backward() -> None:
            for d in cleared:
                self.device.zero(d.address, d.nbytes)
            launch(adj_inputs=[None] * len(arguments), adjoint=True)  # which sets the upstream gradient to 0

        return launch, backward, gradients

    def _argument(self, value: Any, gradient: Array | None) -> Any:
        """An argument for Warp: arrays share minigrad's memory and have their gradient attached."""
        if not isinstance(value, Array):
            return value
        kind = self.warp.dtype_from_numpy(value.dtype)
        d = self._argument(gradient, None) if gradient else None
        made = self.warp.array(ptr=value.address, dtype=kind, shape=value.shape, device=self.place, grad=d)
        made.owner = value  # keeps the memory alive
        return made
