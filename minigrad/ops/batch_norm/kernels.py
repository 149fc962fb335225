"""The kernels of batch norm: one set for images (N, C, H, W) in C order, one for channels that are last."""

from minigrad.kernels.extents import ceil_div, next_power
from minigrad.kernels.kernel import Kernel
from minigrad.ops.channels_last import WARP
from minigrad.ops.elementwise import per_element
from minigrad.ops.matmul.kernels import ON
from minigrad.ops.window import BLOCKS

FILE = "batch_norm.cu"
THREADS, RESIDENT = 512, 2048  # threads of a block of strips; the most of a multiprocessor
LEAST, MOST = 4, 16  # pairs of pixels of a thread: at least in sums, each of which is added up again; at most elsewhere
PARTS = 8  # blocks that each multiprocessor has at least, where a channel is summed in parts
CHUNK = 4096  # elements of a channel that are worth a block


def per_part(file: str, name: str) -> Kernel:
    """A kernel in which a block sums CHUNK elements of a channel."""

    def fit(channels: int, terms: int, processors: int) -> dict[str, int]:
        parts = ceil_div(PARTS * processors, max(channels, 1))
        return {"CHUNK": max(ceil_div(terms, parts), CHUNK)}

    sizes, grid = f"channels terms{ON}", ("channels", "terms/CHUNK")
    return Kernel(file, name, grid, ("BLOCK",), sizes, fit=fit, BLOCK=BLOCKS, CHUNK=(CHUNK, 31))


def per_strip(file: str, name: str, sums: int = 0) -> Kernel:
    """A kernel in which a block owns PAIRS pairs of pixels and ACROSS fours of channels: see `channels_last.cuh`.

    sums: the threads that a multiprocessor runs at once, of a kernel that leaves a sum for each block: it has only as
    many blocks as run at once.
    """

    def fit(pairs: int, fours: int, processors: int) -> dict[str, int]:
        across = next_power(fours, WARP)
        height = next_power(pairs, THREADS // across)
        each = ceil_div(pairs * fours, processors * (sums or RESIDENT))  # pairs of a thread, if all run at once
        each = max(each, LEAST) if sums else min(each, MOST)
        return {"ACROSS": across, "HEIGHT": height, "PAIRS": max(each, 1) * height}

    return Kernel(
        file,
        name,
        grid=("pairs/PAIRS", "fours/ACROSS"),
        block=("ACROSS", "HEIGHT"),
        sizes=f"pairs fours{ON}",
        fit=fit,
        ACROSS=(32, 1),
        HEIGHT=(16, 3),
        PAIRS=(64, 2),
    )


def finish(name: str) -> Kernel:
    """A kernel that adds up the parts of the sums of 8 channels."""

    def fit(channels: int, parts: int) -> dict[str, int]:
        return {"ROWS": next_power(parts, 64)}

    return Kernel(FILE, f"batch_norm_{name}", ("channels/8",), ("8", "ROWS"), "channels parts", fit=fit, ROWS=(64, 3))


kernels = {
    "forward_statistics": per_part(FILE, "batch_norm_statistics"),
    "forward_statistics_nhwc": per_strip(FILE, "batch_norm_statistics_nhwc", sums=RESIDENT),
    "forward_finish": finish("finish_statistics"),
    "forward": per_element(FILE, "batch_norm_forward", "size", BLOCKS),
    "forward_nhwc": per_strip(FILE, "batch_norm_forward_nhwc"),
    "backward_sums": per_part(FILE, "batch_norm_sums"),
    "backward_sums_nhwc": per_strip(FILE, "batch_norm_sums_nhwc", sums=RESIDENT // 2),
    "backward_finish": finish("finish_sums"),
    "backward": per_element(FILE, "batch_norm_backward", "size", BLOCKS),
    "backward_nhwc": per_strip(FILE, "batch_norm_backward_nhwc"),
    "backward_running": per_element(FILE, "batch_norm_backward_running", "channels", BLOCKS),
}
