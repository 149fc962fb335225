"""Whether a launch is one of which there is a gradient: one without a race."""

import numpy as np

from minigrad.adjoint.launching import Run
from minigrad.adjoint.tree import Place
from minigrad.convert import copied
from minigrad.kernel import Kernel

EXAMINED = 4096  # threads of a launch that is looked at for races


def examine(kernel: Kernel, run: Run, seen: set[tuple]) -> None:
    """Run the kernel on copies under the microscope, where it is small and on sim. Raises Refused at a race.

    seen: the launches already examined, by what their indices are made of.
    """
    if run.threads > EXAMINED or any(a.device.name != "sim" for a in run.arrays.values()):
        return
    whole = {name: a.numpy().tobytes() for name, a in run.arrays.items() if a.dtype.kind in "iub"}
    whole |= {name: v for name, v in run.scalars.items() if isinstance(v, int | np.integer)}
    launch = (run.grid, run.block, *whole.items(), *(a.shape for a in run.arrays.values()))
    if launch in seen:
        return
    from minigrad.microscope import inspect

    arrays = {name: copied(a) for name, a in run.arrays.items()}
    args = [{**arrays, **run.scalars}[p.name] for p in run.module.kernel.params]
    for problem in inspect(kernel, *args, grid=run.grid, block=run.block, blocks=0).problems:
        if problem.kind == "race":
            why = f"the kernel has a race and so no gradient: {problem.message}"
            raise run.module.refuse(Place(problem.line or 0, 1), why)
    seen.add(launch)
