"""Host programs: what their calls have to show besides a right result."""

from minigrad.lab.check.answer import Refused
from minigrad.lab.runtime import Runtime

WARP = 32


def require_gpu(cuda: Runtime, name: str, n: int) -> None:
    """Raises Refused unless this kernel did the work: launched over n elements, with its result copied back."""
    launched = [(blocks, threads) for kernel, blocks, threads in cuda.launches if kernel == name]
    if not launched:
        raise Refused(f"{name} is never launched. Let the device do the arithmetic: cuda.launch({name}, ...)", "unused")
    for blocks, threads in launched:
        here = f"{name} is launched with {blocks} blocks of {threads} threads, for {n} elements"
        if threads < min(n, WARP):
            raise Refused(f"{here}. A warp has {WARP} places: take blocks of 256, say. Blocks come first", "wasteful")
        if blocks > -(-n // threads) + 1:
            raise Refused(f"{here}. {-(-n // threads)} blocks are enough, and the others are idle", "wasteful")
    if cuda.copied("cudaMemcpyDeviceToHost") < 4 * n:
        raise Refused("the result that the kernel made was not copied back to the host", "unused")
