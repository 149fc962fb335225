"""The thread sanitizer of GCC finds no race in the OpenMP ladder, and finds a barrier that was taken out."""

import os
import subprocess
from pathlib import Path

import pytest

from minigrad.devices.host_compiler import find_compiler
from minigrad.simulator.translate import translate
from minigrad.source import Source

DRIVER = Path(__file__).with_name("sanitized.cpp")
FLAGS = ["-x", "c++", "-std=c++17", "-O1", "-g", "-w", "-march=native", "-fopenmp", "-fsanitize=thread", "-c"]
BARRIER = "#pragma omp barrier"


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """A function that compiles a text with the driver, runs it, and returns what it prints."""
    compiler = find_compiler()
    if compiler.is_clang:
        pytest.skip("the thread sanitizer was not run: the driver stands in for GCC's runtime, and this is Clang")
    folder = tmp_path_factory.mktemp("sanitized")

    def run(text):
        file, compiled, program = folder / "all.cpp", folder / "all.o", folder / "all"
        file.write_text(text)
        subprocess.run([*compiler.command, *FLAGS, file, "-o", compiled], check=True)
        link = [*compiler.command, "-fsanitize=thread", compiled, "-o", program]  # and not GCC's own runtime
        subprocess.run(link, check=True, capture_output=True)
        first = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"}
        done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False, env=first)
        return done.stdout + done.stderr

    try:
        ran = run('#include <stdio.h>\nint main() { puts("it runs"); }')
    except subprocess.CalledProcessError:
        pytest.skip("the thread sanitizer was not run: this compiler has none to link (libtsan)")
    if ran != "it runs\n":
        pytest.skip(f"the thread sanitizer was not run: it does not start on this system: {ran[:200]}")
    return run


@pytest.fixture(scope="module")
def text():
    ladder = translate(Source.read("recurrent/openmp.cpp"), host=True).text
    return f'#define real float\n{ladder}\n#line 1 "{DRIVER.name}"\n{DRIVER.read_text()}'


def test_no_race(sanitized, text):
    assert sanitized(text) == "every rung ran\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize("rung", ["units", "wavefront"])
def test_a_lost_barrier_is_found(rung, sanitized, text):
    before, mark, own = text.partition(f"// [{rung}]")
    assert mark and BARRIER in own
    said = sanitized(before + mark + own.replace(BARRIER, "", 1))
    assert "data race" in said and "packed.h" in said
