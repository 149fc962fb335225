"""How the device `cuda` captures launches into a graph, and replays them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import WeakSet, ref

from minigrad.array import Array
from minigrad.devices.base import Step
from minigrad.devices.libcuda import Capture, Replay
from minigrad.devices.pool import Pool


class Captured:
    """A graph, the memory that it works in, and the buffers of others that it reads or writes: they stay as long."""

    def __init__(self, pool: Pool):
        self.pool, self.touched, self.held = pool, set[ref](), list[Any]()
        self.replay: Replay | None = None

    def touch(self, arrays: Sequence[Array]) -> None:
        """Note what is worked on beside the graph's own memory."""
        self.touched.update(ref(x.buffer) for x in arrays if x.buffer.address not in self.pool.pieces)

    def hold(self) -> None:
        """Keep what is worked on. Raises RuntimeError where the step has let go of some of it."""
        self.held = [buffer() for buffer in self.touched]
        if None in self.held:
            raise RuntimeError(
                "mg.graph: the step lets go of a tensor that it works on, and a replay would read the old one. "
                "Overwrite it instead: x.assign(new), under `with mg.no_grad():`."
            )

    def close(self) -> None:
        """Give the graph back."""
        if self.replay:
            self.replay.close()
            self.replay = None


class Capturing:
    """The part of the device `cuda` that makes graphs."""

    pool: Pool
    stream: Any
    _library: Any
    _capture: Captured | None
    _lock: Any
    _graphs: WeakSet[Captured]
    current: Callable[[], AbstractContextManager[None]]
    take: Callable[[Sequence[Step]], None]

    @contextmanager
    def capture(self) -> Iterator[Captured]:
        """Within it nothing runs: launches are noted, in memory from a pool of the graph's own.

        Other threads wait meanwhile. Reading and sending data raises RuntimeError.
        """
        with self.current():
            outside, captured = self.pool, Captured(Pool(self.pool.lend))
            noting = Capture(self._library, self.stream.handle)
            self.pool, self._capture = captured.pool, captured
            try:
                yield captured
                captured.hold()
            except BaseException:
                noting.abandon()
                outside.adopt(captured.pool)  # somebody may hold a piece of it
                raise
            else:
                captured.replay = noting.end()
                self._graphs.add(captured)
            finally:
                self.pool, self._capture = outside, None

    def replay(self, captured: Captured) -> None:
        """Queue a captured graph."""
        with self._lock:
            self.take([captured.replay.queue])  # type: ignore[union-attr]

    def drop(self, captured: Captured) -> None:
        """Give a graph back; its memory goes to the pool of all."""
        captured.close()
        self.pool.adopt(captured.pool)

    def touch(self, *arrays: Array) -> None:
        """Note what a graph that is being captured works on."""
        if self._capture is not None:
            self._capture.touch(arrays)

    def must_not_capture(self, what: str, instead: str) -> None:
        """Raise RuntimeError while a graph is being captured."""
        if self._capture is not None:
            raise RuntimeError(f"mg.graph: the step {what} while it is captured, and a replay would not. {instead}")
