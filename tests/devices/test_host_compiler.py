"""The host's C++ compiler: finding it, its objects, its errors, and the cache of compiled files."""

import ctypes
import importlib.util

import pytest

from minigrad.devices import caches
from minigrad.devices.host_compiler import BuildError, find_compiler
from minigrad.errors import DeviceError

SUM = """extern "C" double sum(const double* x, int n) {
    double total = 0; for (int i = 0; i < n; ++i) total += x[i]; return total;
}"""


def test_cpp_becomes_a_python_function(tmp_path):
    path = find_compiler().build(SUM, "sum.cpp", ["-O2", "-fPIC", "-march=native"], tmp_path)
    function = ctypes.CDLL(str(path)).sum
    function.restype = ctypes.c_double
    assert function((ctypes.c_double * 3)(1, 2, 0.5), 3) == 3.5


def test_an_error_names_the_line(tmp_path):
    with pytest.raises(BuildError, match=r"sum\.cpp:2:.*error"):
        find_compiler().build(SUM.replace("+= x", "+= y"), "sum.cpp", ["-fPIC"], tmp_path)


def test_no_compiler_is_a_device_error(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("MINIGRAD_CXX", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"g\+\+.*xcode-select.*ziglang"):
        find_compiler.__wrapped__()
    monkeypatch.setenv("MINIGRAD_CXX", "no-such-compiler -O2")
    with pytest.raises(DeviceError, match="MINIGRAD_CXX names 'no-such-compiler'"):
        find_compiler.__wrapped__()


def test_a_file_is_compiled_once_per_key(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "new"))
    built = []

    def build(folder):
        built.append(folder)
        (folder / "made").write_text(str(len(built)))
        return folder / "made"

    first, other = (caches.compiled("name", ".so", key, build) for key in (("a", 1), ("a", 2)))
    assert first != other and caches.compiled("name", ".so", ("a", 1), build) == first and len(built) == 2
    assert caches.compiled("name", ".so", ("a", 1), build, again=True).read_text() == "3"
    assert sorted((tmp_path / "new").iterdir()) == sorted([first, other])  # and no folder was left


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.raises(DeviceError, match=r"cannot write .*; name another folder in MINIGRAD_CACHE"):
        caches.compiled("name", ".so", 1, lambda folder: folder)
