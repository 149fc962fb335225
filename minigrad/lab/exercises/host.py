"""Host programs: what their calls have to show besides a right result."""

from minigrad.lab.check.answer import Refused
from minigrad.lab.exercises.counts import enough
from minigrad.lab.runtime import Runtime
from minigrad.microscope.counts import WARP


def require_freed(cuda: Runtime) -> None:
    """Raises MemoryError where the program leaves memory allocated."""
    if count := len(cuda.live):
        are = "1 of the program's allocations is" if count == 1 else f"{count} of the program's allocations are"
        raise MemoryError(f"{are} not freed: each cudaMalloc needs its cudaFree")


def require_gpu(cuda: Runtime, name: str, n: int) -> None:
    """Raises Refused unless this kernel did the work: launched over n elements, with its result copied back."""
    launched = [(blocks, threads) for kernel, blocks, threads in cuda.launches if kernel == name]
    if not launched:
        raise Refused(f"{name} is never launched. Let the device do the arithmetic: cuda.launch({name}, ...)", "unused")
    for blocks, threads in launched:
        here = f"{name} is launched with {blocks} blocks of {threads} threads, for {n} elements"
        if threads < min(n, WARP):
            raise Refused(f"{here}. A warp has {WARP} places: take blocks of 256, say. Blocks come first", "wasteful")
        if blocks > (needed := -(-n // threads)):
            raise Refused(f"{here}. Of these blocks {enough(needed)}, and the others are idle", "wasteful")
    if cuda.copied("cudaMemcpyDeviceToHost") < 4 * n:
        raise Refused("the result that the kernel made was not copied back to the host", "unused")
