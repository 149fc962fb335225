"""Rivals of the benchmarks, imported only when they are asked for."""
