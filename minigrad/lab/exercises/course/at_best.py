"""08: the time that a kernel takes at least: its bytes and its arithmetic, whichever takes longer."""

from minigrad.lab.exercises import PythonExercise, Wrong


def roof(nbytes: float, flops: float, bandwidth: float, peak: float) -> float:
    """Seconds by way of the roofline: FLOPs over the speed at this intensity."""
    return flops / min(peak, bandwidth * flops / nbytes) if flops else nbytes / bandwidth


at_best = PythonExercise(
    "08",
    task="""
**The time that no block size can beat.** A kernel has to move `nbytes` bytes, and to do `flops` additions and
multiplications. The memory moves `bandwidth` bytes in a second. The chip calculates at most `peak` FLOPs in a second,
and does both at the same time. How many seconds does the kernel take at least? This is the roofline, seen as a time.
""",
    solution="""
def at_best(nbytes, flops, bandwidth, peak):
    #> return None  # <- your code
    return max(nbytes / bandwidth, flops / peak)
    #<
""",
    hints=[
        "How long would the memory take for all bytes, if there were nothing to calculate? And the arithmetic, if "
        "there were nothing to move?",
        "Both go on at the same time, so the two times do not add up. The kernel is done when the later one is done.",
    ],
    wrong=[
        Wrong("max(nbytes / bandwidth, flops / peak)", "nbytes / bandwidth + flops / peak", "value",
              "Other warps calculate while some wait for memory: the times overlap, and do not add up."),
        Wrong("max", "min", "value", "A kernel is done when both are done: the longer of the two times."),
        Wrong("max(nbytes / bandwidth, flops / peak)", "nbytes / bandwidth", "value",
              "Where a number is used often, the arithmetic takes longer than the memory."),
        Wrong("max(nbytes / bandwidth, flops / peak)", "flops / peak", "value",
              "Where there is little to calculate, the memory takes longer than the arithmetic."),
        Wrong("max(nbytes / bandwidth, flops / peak)", "max(bandwidth / nbytes, peak / max(flops, 1))", "value",
              "That is how many times it would be done in a second. The time is the amount over the speed."),
        Wrong("max(nbytes / bandwidth, flops / peak)", "flops / min(peak, bandwidth * flops / nbytes)", "raised",
              "That is the roofline, but this kernel does no arithmetic. Compare two times instead of two speeds."),
        Wrong("nbytes / bandwidth", "nbytes // bandwidth", "value", "`//` drops everything after the decimal point."),
        Wrong("nbytes / bandwidth", "4 * nbytes / bandwidth", "value",
              "The bytes are counted already: nbytes is not a number of floats."),
    ],
    truth=roof,
    cases=[(8e9, 1e9, 4e12, 60e12), (12e9, 0, 4e12, 60e12), (2e8, 1.4e11, 4e12, 60e12), (4e9, 60e9, 4e12, 60e12),
           (100, 10, 10, 4)],
)  # fmt: skip
