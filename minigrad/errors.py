"""The errors of minigrad that NumPy and Python have no name for.

Wrong shapes and axes raise ValueError, wrong types TypeError, misuse of the tape RuntimeError, as in NumPy and PyTorch.
"""


class DeviceError(RuntimeError):
    """A device is not to be had on this machine; the text says what to install."""


class CompileError(RuntimeError):
    """CUDA C++ that does not compile; the text names file and line as the reader knows them."""


class LaunchError(ValueError):
    """A launch that was refused before it ran: arguments, block, grid or shared memory do not fit."""


class KernelError(RuntimeError):
    """A kernel that went wrong while it ran.

    kind is one of "out-of-bounds", "null-pointer", "misaligned", "division", "barrier-divergence", "timeout", "assert",
    "illegal-access"; buffer is the parameter's name; block and thread are (x, y, z); address is that of
    the access; reason is what happened and the way out, without its place. What is unknown is None.
    """

    def __init__(
        self,
        message: str,
        kernel: str,
        kind: str,
        buffer: str | None = None,
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
        line: int | None = None,
        file: str | None = None,
        address: int | None = None,
        reason: str = "",
    ):
        super().__init__(message)
        self.reason = reason or message
        self.kernel, self.kind, self.buffer, self.address = kernel, kind, buffer, address
        self.block, self.thread, self.line, self.file = block, thread, line, file
