"""A reader's own kernels in place of the course's: `with mg.using(*mg.mine()):`.

`%%kernel` gives an op with the reader's kernel, and `%%exercise` a kernel that an adapter launches as its op. For the
time of the block the registered op takes the launch and the kernels of such an op; its prepared calls are dropped at
both ends.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import ne
from threading import RLock
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.display import Table, Tabular, folded, table
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import RETUNED, Kernel
from minigrad.lab.check.attempt import Fault, ReaderKernel
from minigrad.lab.check.kernel import OpTrial
from minigrad.lab.exercises import KernelExercise
from minigrad.lab.exercises.course import all_exercises
from minigrad.lab.progress import Solved, progress
from minigrad.op import OPS, Op
from minigrad.ops.cross_entropy import divisor, peaks_of
from minigrad.ops.elementwise import per_element
from minigrad.ops.reduction import reduce
from minigrad.optim import SGD

UPDATE = "SGD"  # the name of the update among the ops
TURNED = {"forward": (False, False), "a @ b^T": (False, True), "a^T @ b": (True, False)}  # by the way of a product
OF_SOFTMAX = per_element("cross_entropy.cu", "cross_entropy_of_softmax", "rows")
OF_SOFTMAX_BACKWARD = per_element("cross_entropy.cu", "cross_entropy_of_softmax_backward", "size")
COURSE_UPDATE = SGD._launch


@dataclass(frozen=True, eq=False)
class OwnKernel:
    """A reader's kernel, under the name by which it was written, and the calls that it could not do, by the reason."""

    name: str  # "matmul_tile", or "matmul tiled" for %%kernel
    kernel: Kernel
    notebook: str = ""
    exercise: KernelExercise | None = None
    unfit: Counter[str] = field(default_factory=Counter)
    before: int = 0  # launches before this record was made

    @property
    def launches(self) -> int:
        """The launches of the kernel since this record was made."""
        return _launches(self.kernel) - self.before

    @property
    def way(self) -> str:
        """The way of the exercise, as in AsOp; "forward" or "backward" for a kernel in place of an op's own."""
        if self.exercise:
            assert self.exercise.op
            return self.exercise.op.way
        return "backward" if "backward" in self.name else "forward"

    def can(self, arrays: Sequence[Array], params: Mapping[str, Any]) -> bool:
        """True if the kernel of an exercise can do this call of the op; if not, the reason is counted."""
        assert self.exercise and self.exercise.op
        reason = "its numbers are no float32" * any(x.dtype != np.float32 for x in arrays)
        reason = reason or "mg.precision asks for fewer bits" * (params.get("precision", "float32") != "float32")
        reason = reason or self.exercise.op.unfit(*arrays, **params)
        self.unfit.update([reason] * bool(reason))
        return not reason

    def run(self, arrays: Sequence[Array], params: Mapping[str, Any]) -> Array | None:
        """The op's result, or None where the launch would be beyond CUDA's limits."""
        assert self.exercise and self.exercise.op
        try:
            (y,) = self.exercise.launch(self.kernel, *arrays)
        except LaunchError as error:
            self.unfit[str(error)] += 1
            return None
        return self.exercise.op.finish(y, *arrays, **params)


@dataclass(frozen=True, eq=False)
class OwnOp:
    """An op, or the update "SGD", with the reader's kernels: its launches for the time of `using`."""

    name: str
    kernels: tuple[OwnKernel, ...]
    op: Op | None = None  # none for the update

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The op with the reader's kernels."""
        if self.op is None:
            raise TypeError(f"{self.name} is the update of an optimizer: train in a block, with mg.using(*mg.mine()).")
        return self.op(*args, **named)


class Mine(Tabular):
    """The reader's own ops, which `using` takes, with the launches of their kernels so far.

    launches: by the names of the kernels. note: a sentence about texts that cannot be used.
    """

    def __init__(self, ops: Sequence[OwnOp], note: str = ""):
        self.ops, self.note = tuple(ops), note

    def __iter__(self) -> Iterator[OwnOp]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __getitem__(self, name: str) -> OwnOp:
        """The op of that name. Raises KeyError."""
        for own in self.ops:
            if own.name == name:
                return own
        raise KeyError(f"no kernel of {name} is yours; yours are {', '.join(own.name for own in self.ops) or 'none'}.")

    @property
    def launches(self) -> dict[str, int]:
        return {own.name: own.launches for each in self.ops for own in each.kernels}

    def table(self) -> Table:
        rows = [
            (each.name, own.name, own.notebook, f"{own.launches:,}", _unfit(own))
            for each in self.ops
            for own in each.kernels
        ]
        if not rows:
            none = "No kernel is yours yet: solve an exercise whose kernel is an op, or change a kernel by %%kernel."
            return table([], (), folded(f"{none} {self.note}".rstrip()))
        caption = folded(f"Your own kernels; everything else runs with the course's. {self.note}".rstrip())
        return table(rows, ("op", "your kernel", "notebook", "launches", "calls that it cannot do"), caption)


def mine() -> Mine:
    """The ops of which you have kernels of your own, from what you solved: with several, the newest that fits runs."""
    found = progress()
    notes, kernels = [found.note] * bool(found.note), dict[str, list[OwnKernel]]()
    for solved in found.solved:
        if (name := _op_of(solved)) is None:
            continue
        try:
            kernels.setdefault(name, []).append(_own_kernel(solved))
        except (Fault, ValueError, KeyError) as error:
            notes.append(f"{solved.name} of {solved.date[:10]} cannot be used: {str(error).rstrip('.')}.")
    return Mine([own_op(name, found) for name, found in kernels.items() if found], " ".join(notes))


_ACTIVE: list[Mine] = []  # the blocks of `using` that have not ended
_COURSE: list[tuple] = []  # the ops that they change, each with the state to restore
_CHANGING = RLock()


@contextmanager
def using(*own: Any) -> Iterator[Mine]:
    """`with mg.using(*mg.mine()):`, or `using(my_matmul, my_relu)`: in the block these kernels run, and count launches.

    own: the ops that `mine` and `%%kernel` give, and the kernels that `%%exercise` gives. An op of that name runs with
    these kernels wherever it is called: by operators, modules, gradients and the loss. With a softmax of your own
    `cross_entropy` goes through it. Afterwards all is as before. It holds for every thread; a step that `mg.graph` has
    captured keeps the kernels of its capture. Of blocks in several threads the last that began counts, and when one
    ends the others stay. Raises TypeError, and ValueError for two of one name.
    """
    taken = Mine([_taken(each) for each in own])
    names = [each.name for each in taken]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"using: two of them are {twice[0]}; name one, or take all that you solved: *mg.mine().")
    try:
        with _CHANGING:
            _install([*_ACTIVE, taken])
        yield taken
    finally:
        with _CHANGING:
            _install([each for each in _ACTIVE if each is not taken])


def own_op(name: str, kernels: Sequence[OwnKernel]) -> OwnOp:
    """The op with these kernels, of which the last that fits a call runs."""
    if name == UPDATE:
        return OwnOp(name, tuple(kernels[-1:]))
    op = OPS[name]
    for own in kernels:
        if not own.exercise:
            op = OpTrial(op, own.name.split()[1]).through(own.kernel)
    adapted = [own for own in reversed(kernels) if own.exercise]
    if adapted:
        op = op.with_kernels(op.kernels, op.fast)
        newest = next((own for own in reversed(kernels) if own.way == "forward"), adapted[0])
        if newest.exercise:  # else the op's launch takes it
            op.launch = partial(_matmul if name == "matmul" else _forward, adapted, op.launch)
        if name == "matmul":
            op.launch_backward = partial(_matmul_backward, adapted, op.launch_backward)
    return OwnOp(name, tuple(kernels), op)


def _forward(own: Sequence[OwnKernel], course: Callable, kernels: Any, *arrays: Array, **params: Any) -> Array:
    """The first of these kernels that can do it, else the op's launch of its kernels."""
    for each in own:
        if each.can(arrays, params) and (y := each.run(arrays, params)) is not None:
            return y
    return course(kernels, *arrays, **params)


def _matmul(own: Sequence[OwnKernel], course: Callable, kernels: Any, a: Array, b: Array, precision: str) -> Array:
    """a @ b."""
    c = _product(own, a, b, (False, False), precision)
    return course(kernels, a, b, precision) if c is None else c


def _matmul_backward(
    own: Sequence[OwnKernel], course: Callable, kernels: Any, needs: tuple, dy: Array, a: Array, b: Array,
    shapes: tuple, precision: str,
) -> tuple:  # fmt: skip
    """da = dy @ b^T, db = a^T @ dy."""
    da = _product(own, dy, b, (False, True), precision) if needs[0] else None
    db = _product(own, a, dy, (True, False), precision) if needs[1] else None
    rest = needs[0] and da is None, needs[1] and db is None
    if any(rest):
        others = course(kernels, rest, dy, a, b, shapes, precision)
        return tuple(other if x is None else x for x, other in zip((da, db), others, strict=True))
    return da, db


def _product(own: Sequence[OwnKernel], x: Array, y: Array, turned: tuple[bool, bool], precision: str) -> Array | None:
    """x @ y, where the marked ones stand for their transposes, by the kernel that needs the fewest transposed copies.

    A kernel may multiply by a transpose itself: its way says which.
    """
    params = {"precision": precision}
    ways = [(each, *map(ne, turned, TURNED[each.way])) for each in own if each.can((x, y), params)]
    for each, *copied in sorted(ways, key=lambda way: sum(way[1:])):
        arrays = [
            OPS["transpose"].run([z], {"axes": (1, 0)}) if copy else z for z, copy in zip((x, y), copied, strict=True)
        ]
        if (z := each.run(arrays, params)) is not None:
            return z
    return None


def _through_softmax(kernels: Any, logits: Array, labels: Array, reduction: str, label_smoothing: float) -> tuple:
    """The loss of each row, -log(softmax(x)[label]) or as it is smoothed, then their sum or mean.

    A probability below the smallest float32 makes it infinite, which the course's own kernel avoids.
    """
    rows, classes = logits.shape
    p, losses = _softmax(logits), Array.empty(logits.device, (rows,), logits.dtype)
    OF_SOFTMAX.launch(rows)(p, labels, losses, rows, classes, label_smoothing)
    if reduction != "none":
        losses = reduce(OPS["sum"].running, losses, (0,), False, divisor(reduction, rows))
    return losses, *peaks_of(logits, 0)


def _through_softmax_backward(
    kernels: Any, needs: tuple, dy: Array, logits: Array, labels: Array, most: Array, total: Array, reduction: str,
    label_smoothing: float,
) -> tuple[Array, None]:  # fmt: skip
    """dx = (softmax(x) - target) * dy / rows."""
    (rows, classes), dx = logits.shape, Array.empty(logits.device, logits.shape, logits.dtype)
    p, step = _softmax(logits), int(reduction == "none")
    launch = OF_SOFTMAX_BACKWARD.launch(p.size)
    launch(dy, p, labels, dx, p.size, classes, label_smoothing, step, divisor(reduction, rows))
    return dx, None


def _softmax(logits: Array) -> Array:
    return OPS["softmax"].run([logits], {"axis": 1})


def _update_with(own: OwnKernel, course: Callable) -> Callable:
    """SGD's update of each parameter, in place, by the reader's kernel, or the course's where that one cannot do it."""

    def launch(self: SGD, rows: Sequence[Sequence[Any]]) -> None:
        for p, g, v in rows:
            reason = "its numbers are no float32" * (p.dtype != np.float32) or "it has weight_decay" * (
                self.weight_decay > 0
            )
            if not reason:
                own.kernel.launch(p.size)(p, g, v, self.lr, self.momentum, p.size)
            else:
                own.unfit[reason] += 1
                course(self, [(p, g, v)])

    return launch


# --- what readers give, and what they wrote ---


def _taken(given: Any) -> OwnOp:
    """The op of what is given to `using`, with launches counted from now on. Raises TypeError."""
    if isinstance(given, OwnOp):
        return given
    if isinstance(given, ReaderKernel) and (exercise := _as_op(given.name)):
        assert exercise.op
        own = OwnKernel(given.name, given, exercise.notebook, exercise, before=_launches(given))
        return own_op(exercise.op.name, [own])
    if isinstance(given, Op) and (name := next((key for key, op in OPS.items() if op.inputs is given.inputs), "")):
        yours = {key: kernel for key, kernel in given.running.items() if isinstance(kernel, ReaderKernel)}
        kernels = {id(kernel): (key, kernel) for key, kernel in reversed(yours.items())}  # once, by its first role
        own_kernels = [OwnKernel(f"{name} {key}", k, before=_launches(k)) for key, k in kernels.values()]
        return OwnOp(name, tuple(own_kernels), given)
    raise TypeError(f"using takes ops and kernels of your own, as %%kernel and mg.mine() give them; got {given!r:.60}.")


def _op_of(solved: Solved) -> str | None:
    """The op of which a solved text is a kernel, if it is one."""
    if solved.kind == "kernel":
        return solved.name.partition(" ")[0]
    exercise = _as_op(solved.name)
    return exercise.op.name if exercise and exercise.op else None


def _as_op(name: str) -> KernelExercise | None:
    """The exercise of that name, if its kernel can run as an op."""
    exercise = all_exercises().get(name)
    return exercise if isinstance(exercise, KernelExercise) and exercise.op else None


def _own_kernel(solved: Solved) -> OwnKernel:
    """The kernel of a solved text. Raises Fault, ValueError or KeyError where the course no longer has its place."""
    exercise = _as_op(solved.name) if solved.kind == "exercise" else None
    if exercise:
        right = exercise.kernel
    else:
        name, role = solved.name.split()
        right = OPS[name][role]
    return OwnKernel(solved.name, ReaderKernel(right, solved.text), solved.notebook, exercise)


def _launches(kernel: Kernel) -> int:
    return sum(kernel.launched.values()) if isinstance(kernel, ReaderKernel) else 0


def _unfit(own: OwnKernel) -> str:
    return "; ".join(f"{count:,}: {reason}" for reason, count in own.unfit.items())


# --- the registered op for the time of a block ---


def _state(op: Op) -> tuple:
    return op.launch, op.launch_backward, op.kernels, op.fast


def _install(blocks: Sequence[Mine]) -> None:
    """The ops and the update of these blocks, one after the other on those of the course; they are active now."""
    for state in _COURSE:
        _set(*state)
    SGD._launch, SGD.reads_lr = COURSE_UPDATE, True  # type: ignore[method-assign]
    names = {each.name for block in blocks for each in block} - {UPDATE}
    names |= {"cross_entropy"} if "softmax" in names else set()  # whose loss goes through it
    _ACTIVE[:], _COURSE[:] = blocks, [(OPS[name], *_state(OPS[name])) for name in names]
    for block in blocks:
        _install_one(block)
    _forget()


def _install_one(block: Mine) -> None:
    """Replace the launches and kernels of the registered ops, and the update, by those of a block."""
    for each in block:
        if each.op:
            _replace(OPS[each.name], *_state(each.op))
        else:
            SGD._launch = _update_with(each.kernels[-1], SGD._launch)  # type: ignore[method-assign]
            SGD.reads_lr = False
    names = {each.name for each in block}
    if "softmax" in names and "cross_entropy" not in names:
        loss = OPS["cross_entropy"]
        _replace(loss, _through_softmax, _through_softmax_backward, loss.kernels, loss.fast)


def _replace(op: Op, launch: Callable, launch_backward: Callable | None, kernels: Any, fast: Any) -> None:
    """Give a registered op other launches and kernels. A copy of it, as `matmul.using("tiled")`, runs the course's."""
    course = next(state for state in _COURSE if state[0] is op)
    mine, mine_backward = (
        each and partial(_registered, op, getattr(each, "keywords", {}).get("otherwise", each), otherwise=otherwise)
        for each, otherwise in ((launch, course[1]), (launch_backward, course[2]))
    )
    _set(op, mine, mine_backward, kernels, fast)  # type: ignore[arg-type]


def _registered(op: Op, launch: Callable, kernels: Any, *arguments: Any, otherwise: Callable, **params: Any) -> Any:
    """This launch for the registered op itself, and the other one for its copies, which have other kernels."""
    return (launch if kernels is op.running else otherwise)(kernels, *arguments, **params)


def _set(op: Op, launch: Callable, launch_backward: Callable | None, kernels: Any, fast: Any) -> None:
    op.launch, op.launch_backward = launch, launch_backward
    op._choose(kernels, fast)


def _forget() -> None:
    """Drop every prepared call and update: each may hold the launches of another kernel."""
    for listener in RETUNED:
        listener()
