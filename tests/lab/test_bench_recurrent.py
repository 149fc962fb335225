"""The benchmark of recurrent networks on the processor."""

import os
from functools import cache

import numpy as np
import pytest

from minigrad.lab.bench.recurrent import processor as recurrent
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch
from minigrad.nn import GRU
from minigrad.recurrent import OpenMP


@pytest.fixture
def no_time(monkeypatch):
    """Every limit is measured by one call, which takes 100 us."""
    measured = recurrent.multiplications, recurrent.bandwidth, recurrent.barrier
    monkeypatch.setattr(recurrent, "fastest", lambda call: (call(), 1e-4)[1])
    for each in measured:
        each.cache_clear()
    yield
    for each in measured:
        each.cache_clear()


def test_rungs_are_timed_beside_the_limit(no_time):
    found = recurrent.recurrent_times(cells=["gru"], hidden=[40], batches=[2], threads=[1, 2], repeats=2, steps=3)
    (times,) = found.times.values()
    assert [*times] == [
        "packed, 1 thread", "units, 1 thread", "batch, 1 thread", "both, 1 thread",
        "units, 2 threads", "batch, 2 threads", "both, 2 threads", "limit, 1 thread", "barrier, 1 thread",
        "limit, 2 threads", "barrier, 2 threads",
    ]  # fmt: skip
    assert times["limit, 2 threads"].seconds == pytest.approx(times["limit, 1 thread"].seconds / 2, 0.01)
    assert all(time.repeats == 2 for label, time in times.items() if label.split(",")[0] in recurrent.RUNGS)
    assert "gru 40, batch 2, float32" in repr(found) and "load" in repr(found)


def test_the_table_shows_the_fastest_run_beside_its_rival_and_limit():
    labels = {"torch, 2 threads": 6e-6, "units, 2 threads": 4e-6, "limit, 2 threads": 3e-6}
    times = {label: Timing(1, fastest, 2, 5, True) for label, fastest in labels.items()}
    shown = recurrent.RecurrentTimes("2 processors", "2026-01-01", 0.5, {"gru": times}).table()
    assert shown.rows == (
        ("gru", "torch, 2 threads", "6.0", "1.00", "0.50"), ("gru", "units, 2 threads", "4.0", "1.50", "0.75"),
    )  # fmt: skip


def test_the_limit_is_that_of_what_is_slower(monkeypatch):
    module = recurrent.network(GRU, 100)
    monkeypatch.setattr(recurrent, "multiplications", lambda threads: 1e6)
    monkeypatch.setattr(
        recurrent, "bandwidth", lambda nbytes, threads: {(120_000, 1): 1e9, (60_000, 2): 1e9}[nbytes, threads]
    )
    assert recurrent.limit(module, 8, 2) == pytest.approx(2 * 2 * 8 * 30_000 / 2e6)
    monkeypatch.setattr(recurrent, "bandwidth", lambda nbytes, threads: 1e3)
    assert recurrent.limit(module, 8, 1) == pytest.approx(2 * 8 * 30_000 / 1e6 + 120_000 / 1e3)


def test_the_limits_of_the_cores_are_measured_at_once():
    assert all(1e8 < recurrent.multiplications(n) < 1e12 for n in (1, 2))
    assert all(1e8 < recurrent.bandwidth(2**16, n) < 1e12 for n in (1, 2))
    assert recurrent.multiplications(8 * len(os.sched_getaffinity(0))) < recurrent.multiplications(1) / 3


def test_what_the_cores_do_at_once_is_timed_by_threads(monkeypatch):
    of_sweep = iter([2e9, 1e9])
    monkeypatch.setattr(recurrent, "multiplications", cache(lambda threads: next(of_sweep) / threads))
    monkeypatch.setattr(recurrent, "bandwidth", cache(lambda nbytes, threads: nbytes / 1e-3))
    assert recurrent.core_times([1])["multiplies, 1 thread"].seconds == 5e-4
    of_sweep = iter([1e9, 1e9])  # the next call measures anew
    found = recurrent.core_times([1, 2])
    assert found["multiplies, 2 threads"].seconds == 2 * found["multiplies, 1 thread"].seconds == 2e-3
    assert found["reads 16 MiB, 1 thread"].seconds == 1e-3 and len(found) == 6


def test_a_barrier_takes_time_where_there_are_two_threads():
    assert recurrent.barrier(1) < 1e-6 and 0 <= recurrent.barrier(2) < 1


def test_a_wrong_result_is_not_timed(monkeypatch):
    scan = OpenMP.scan
    monkeypatch.setattr(OpenMP, "scan", lambda *args: (scan(*args)[0] + np.float32(1e-3), *scan(*args)[1:]))
    with pytest.raises(ValueMismatch, match=r"packed, 1 thread: y is off by 0\.001; not timed"):
        recurrent.recurrent_times(cells=["tanh"], hidden=[20], batches=[1], threads=[1], repeats=1)


def test_pytorch_is_timed_with_the_same_weights_and_threads_in_its_own_process():
    pytest.importorskip("torch")
    found = recurrent.recurrent_times(["torch"], ["relu", "lstm"], [20], [2], [1, 2], ["packed"], 1, layers=2)
    assert [*found.times] == [f"{cell} 20, 2 layers, batch 2, float32" for cell in ("relu", "lstm")]
    assert all({"torch, 1 thread", "torch, 2 threads"} <= times.keys() for times in found.times.values())
    assert recurrent.elsewhere().submit(os.getpid).result() != os.getpid()


def test_a_rung_is_timed_with_an_affinity_or_a_schedule():
    rungs = ["wavefront", *recurrent.BOUND]
    found = recurrent.recurrent_times((), ["gru"], [20], [2], [2], rungs, 1, layers=3)
    (times,) = found.times.values()
    assert [*times] == [*(f"{rung}, 2 threads" for rung in rungs), "limit, 2 threads", "barrier, 2 threads"]
    runner = recurrent.made(recurrent.network(GRU, 20), "units dynamic", 2)
    assert (runner.schedule, runner.affinity) == ("dynamic", "none")
    assert recurrent.made(recurrent.network(GRU, 20), "units spread", 2).affinity == "spread"


@pytest.mark.parametrize(
    "how, text",
    [({"cells": ["rnn"]}, "cells='rnn' must be among tanh, relu, lstm, gru"), ({"rungs": ["warp"]}, "rungs='warp'"),
     ({"threads": [0]}, "threads=0 must be"), ({"against": ["jax"]}, "against='jax' must be among torch")],
)  # fmt: skip
def test_wrong_arguments_are_refused(how, text):
    with pytest.raises(ValueError, match=f"^recurrent_times: {text}"):
        recurrent.recurrent_times(**how)
