"""What is around a kernel that is watched: its folder, other threads, memory that the system has not."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import KernelError

OVER = """extern "C" __global__ void over(float* y) {
    y[threadIdx.x] = 1;  // runs over
}"""


def test_a_folder_and_a_file_with_a_space_in_their_names_have_lines(tmp_path, monkeypatch):
    file = tmp_path / "my kernels" / "run over.cu"
    file.parent.mkdir()
    file.write_text(OVER)
    monkeypatch.chdir(file.parent)
    record = mg.inspect(file, np.zeros(1000, np.float32), grid=1, block=1024)
    (problem,) = record.problems
    assert (problem.file, problem.line, record.lines[0].line) == ("run over.cu", 2, 2)
    with pytest.raises(KernelError, match=r"run over.cu\(2\)") as caught:
        mg.kernel(file, "over")(mg.zeros(1024 - 4, device="sim"), grid=1, block=1024)
    assert caught.value.line == 2
