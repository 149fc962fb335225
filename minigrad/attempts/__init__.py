"""A reader's kernel: compiled, tried on awkward sizes and blocks under the microscope, answered in sentences.

The file that the kernel comes from stays as it is. Lines are counted from the first line of the reader's text.
"""

from collections.abc import Iterator

from minigrad.answer import Answer
from minigrad.attempts.fault import Fault
from minigrad.attempts.run import Run, Trial
from minigrad.attempts.written import Written
from minigrad.errors import DeviceError
from minigrad.kernel import Kernel

__all__ = ["Fault", "Trial", "attempt", "outcomes"]


def attempt(trial: Trial, text: str) -> Answer:
    """Try a reader's text. The answer says that it is right, or what is wrong first, where, and why."""
    try:
        mine = _written(trial.kernel, text)
        for dtype, values in settings(trial):
            for case in trial.cases:
                Run(trial, mine, values, case, dtype).check()
        if not mine.launched:
            raise Fault("unused", f"No case came to {mine.name}, so nothing is known of yours.")
    except Fault as fault:
        known = text.splitlines()
        quoted = [f"\n    line {line}: {known[line - 1].strip()}" for line in fault.lines if fault.kind != "compile"]
        return Answer(False, f"Not yet. {fault}{''.join(quoted)}", fault.kind, next(iter(fault.lines), None))
    except DeviceError as error:  # this machine has no compiler, or no tool that finds lines
        return Answer(False, f"Not yet: {error}", "device")
    return Answer(True, f"Correct. {_tried(trial)}", result=mine)


def settings(trial: Trial) -> list[tuple[str, dict[str, int]]]:
    """Every dtype with the kernel's own values, then every other legal value of each tunable."""
    other = [{key: value} for key, legal in trial.tunables.items() for value in legal[1:]]
    return [*((dtype, {}) for dtype in trial.dtypes), *((trial.dtypes[0], each) for each in other)]


def outcomes(trial: Trial, text: str) -> Iterator[str]:
    """What comes of each case, with the kernel's own block size: the problems, or where there are none the arrays.

    It ends ahead of a launch that had to be stopped: what such a one has done by then, no other need have done.
    """
    mine = _written(trial.kernel, text)
    mine.printed = True
    for case in trial.cases:
        if (outcome := Run(trial, mine, {}, case, trial.dtypes[0]).outcome()) is None:
            return
        yield outcome


def _written(right: Kernel, text: str) -> Written:
    try:
        return Written(right, text)
    except ValueError as error:
        raise Fault("signature", str(error)) from None


def _tried(trial: Trial) -> str:
    """What is known now."""
    blocks = " and ".join(f"{key} = {', '.join(map(str, values))}" for key, values in trial.tunables.items())
    return (
        f"{len(trial.cases)} cases, with {blocks or 'one block size'}: every element is right, every access is "
        "within its array, and no thread gets in another's way."
    )
