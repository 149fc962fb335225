"""The choice among an op's kernels: one by its name, or all of them with other tunables."""

from collections.abc import Mapping

from minigrad.kernels.kernel import Kernel

Kernels = Mapping[str, Kernel]  # by name


def named(op: str, kernels: Kernels, name: str) -> Kernel:
    """The kernel of that name. Raises KeyError with the list."""
    if not isinstance(name, str) or name not in kernels:
        raise KeyError(f"{op} has no kernel {name!r}; it has {', '.join(kernels)}.")
    return kernels[name]


def using(op: str, kernels: Kernels, variant: str | None, tunables: Mapping[str, int]) -> Kernels:
    """The kernels with these tunables, wherever they have them, and with `variant` as the forward kernel.

    Raises ValueError for a tunable that no kernel has, for a kernel of the gradient, and for a "forward_..." one, which
    computes a part of the forward pass; KeyError for an unknown one.
    """
    known = {key for kernel in kernels.values() for key in kernel.tunables}
    if unknown := [key for key in tunables if key not in known]:
        raise ValueError(f"{op} has no tunable {unknown[0]}; it has {', '.join(sorted(known)) or 'none'}.")
    tuned = {
        name: kernel.using(**{key: value for key, value in tunables.items() if key in kernel.tunables})
        for name, kernel in kernels.items()
    }
    if variant is None:
        return tuned
    forward = named(op, tuned, variant)
    if "backward" in variant:
        raise ValueError(f"{op}: {variant} is a kernel of the gradient; choose one of the forward pass.")
    if variant.startswith("forward_"):
        raise ValueError(f"{op}: {variant} is a part of the forward pass, which no other kernel replaces.")
    return tuned | {"forward": forward}
