"""Kernels of wgmma on the simulator, their PTX emulated in CUDA C++: boxes, swizzle, stages, tiles, the store."""

import ctypes
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from minigrad.devices.device import Dim3
from minigrad.devices.tensor_map import ImageMap, TensorMap
from minigrad.kernels.extents import Span
from minigrad.kernels.kernel import Kernel
from minigrad.source import CUDA, Source

EMULATED = Path(__file__).with_name("emulated_hopper.cuh").read_text()
INCLUDE = re.compile(r'^#include "((?:matmul|conv2d|attention)/\w*(?:wgmma|hopper)\w*\.cuh)"$', re.MULTILINE)
STAGES = re.compile(r"extern __shared__ __align__\(1024\) unsigned char (\w+)\[\];")  # more than the simulator has
ROOM, BLOCKS = 217 * 1024, 2


class Emulated(Kernel):
    """A kernel with its instructions emulated; its map of `factor` names the memory of its stages.

    One whose blocks loop over tiles gets two of them.
    """

    def __init__(self, kernel: Kernel, factor: str, instead: Mapping[str, str] | None = None, loops: bool = True):
        found: list[str] = []

        def included(match: re.Match) -> str:
            name = match[1]
            if name in found:
                return ""
            found.append(name)
            return EMULATED if name == "matmul/hopper.cuh" else INCLUDE.sub(included, (CUDA / name).read_text())

        text = INCLUDE.sub(included, kernel.source.text)
        text, changed = STAGES.subn(
            rf"auto \1 = (unsigned char*)({factor}.word[2] + (blockIdx.x + blockIdx.y * gridDim.x) * {ROOM});",
            text,
        )
        assert changed == 1
        for old, other in (instead or {}).items():
            assert old in text
            text = text.replace(old, other)
        super().__init__(Source(text, "emulated.cu", CUDA), kernel.name, fit=kernel.fit, **kernel.tunables)
        self.grid, self.block, self.sizes = (Span(str(BLOCKS)),) if loops else kernel.grid, kernel.block, kernel.sizes

    def run(self, args: Any, grid: Dim3, *launch: Any) -> None:
        memory = ctypes.create_string_buffer(prod(grid) * ROOM + 1024)
        room = -(-ctypes.addressof(memory) // 1024) * 1024
        for arg in args:
            if isinstance(arg, TensorMap):
                describe(arg, room)
        super().run(args, grid, *launch)


def describe(tensor_map: TensorMap, room: int) -> None:
    """Fill in the map as the emulated copy engine reads it."""
    words = [*tensor_map.shape, *tensor_map.box]
    if isinstance(tensor_map, ImageMap):
        words = [*tensor_map.shape, tensor_map.box[0], *tensor_map.lower, *tensor_map.upper, *tensor_map.stride]
    numbers = [tensor_map.array.dtype.itemsize, room, *words]
    tensor_map.rest[:] = [number % 2**64 for number in numbers] + [0] * (15 - len(numbers))
