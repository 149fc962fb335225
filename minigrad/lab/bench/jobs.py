"""The jobs of a large benchmark: its parts by name, and each work measured or left out with the reason."""

from collections.abc import Callable, Sequence
from typing import Any

from minigrad.errors import KernelError, LaunchError
from minigrad.lab.bench.record import Record
from minigrad.lab.check import ValueMismatch

# RuntimeError: no device, no compiler, a step that cannot be captured, a rank that fails.
NOT_TIMED: tuple[type[Exception], ...] = (ValueMismatch, MemoryError, LaunchError, RuntimeError)


def known_part(only: str | None, parts: Sequence[str]) -> str | None:
    """The part of that name. Raises ValueError for an unknown one."""
    if only not in (None, *parts):
        raise ValueError(f"only={only!r} is not a part of the benchmark; the parts are {', '.join(parts)}.")
    return only


def attempt(
    record: Record, title: str, measure: Callable[[], Any], failures: tuple[type[Exception], ...] = NOT_TIMED
) -> bool:
    """Call measure(), which adds to the record; where it fails in one of these ways, the record says why.

    Returns False where the GPU is lost to this process, so that nothing more can be measured.
    """
    try:
        measure()
    except KernelError as wrong:
        record.refuse(title, str(wrong))
        return False
    except failures as wrong:
        record.refuse(title, str(wrong) if isinstance(wrong, ValueMismatch) else f"{title}: {wrong}")
    return True
