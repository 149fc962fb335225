"""08: the number of resident blocks of a multiprocessor. The scarcest resource decides."""

from minigrad.devices.cuda.chip import Chip
from minigrad.lab.exercises import PythonExercise, Wrong
from minigrad.lab.tune.occupancy import Occupancy

H200 = Chip("NVIDIA H200", (9, 0), 132, 1.98e9, 4.8e12, 62914560, 65536, 233472, 1024, 2048, 32)

blocks_held = PythonExercise(
    "08",
    task="""
**How many blocks fit?** A multiprocessor of the H200 holds at most 32 blocks, 64 warps, 65536 registers and 233472
bytes of shared memory.

A block has `threads` threads in warps of 32, and a warp counts whole even where it is not full. Each of its 32 threads
takes `registers` registers, and the warp gets them in units of 256, rounded up. The block takes `shared` bytes of
shared memory, and CUDA adds 1024. How many such blocks fit at once?
""",
    solution="""
def blocks_held(threads, registers, shared):
    #> return None  # <- your code
    warps = -(-threads // 32)
    portions = -(-32 * registers // 256)
    by_registers = 65536 // (warps * portions * 256)
    by_shared = 233472 // (shared + 1024)
    return min(64 // warps, by_registers, by_shared, 32)
    #<
""",
    hints=[
        "for each resource: how many blocks would fit, if there were nothing else? The smallest of the four counts.",
        "a block of 48 threads has two warps, as one of 64. Rounding up is -(-threads // 32).",
        "a warp needs 32 * registers. In units of 256, rounded up, how many is that? A block has as many warps.",
    ],
    wrong=[
        Wrong("-(-threads // 32)", "threads // 32", "raised", "48 threads are two warps, and 16 are one: round up."),
        Wrong("warps * portions * 256", "threads * registers", "value",
              "A warp takes its registers whole, also for the threads that it lacks."),
        Wrong("warps * portions * 256", "warps * 32 * registers", "value",
              "A warp gets its registers in units of 256: 32 threads with 33 registers need 1056, and get 1280."),
        Wrong("shared + 1024", "shared + 1", "value", "CUDA takes 1024 bytes for each block, too."),
        Wrong("by_shared, 32)", "by_shared)", "value", "However small they are, there are no more than 32 blocks."),
        Wrong("min(64 // warps", "max(64 // warps", "value", "What runs out first decides: that is the smallest."),
        Wrong("64 // warps", "2048 // threads", "value",
              "97 threads are four warps, and take the room of 128: divide the 64 warps, not 2048 threads."),
        Wrong("return min(64 // warps, by_registers, by_shared, 32)",
              "return max(1, min(64 // warps, by_registers, by_shared, 32))", "value",
              "A block may need more than there is. Then none fits, and the launch is refused: 0."),
    ],
    truth=lambda threads, registers, shared: Occupancy("kernel", 1, threads, registers, shared, H200).blocks,
    cases=[(256, 16, 0), (32, 16, 0), (16, 16, 0), (48, 64, 0), (256, 64, 0), (1024, 32, 0), (1024, 64, 8192),
           (256, 33, 0), (128, 42, 0), (64, 32, 16384), (128, 128, 3072), (512, 16, 49152), (96, 32, 2048),
           (97, 16, 0), (1024, 128, 0)],
)  # fmt: skip
