"""Recurrent networks run for inference: the same network by NumPy, OpenMP, CUDA and MPI, each a ladder of its own.

`fast = mg.recurrent.OpenMP(lstm, threads=2)` prepares the weights of a trained `nn.RNN`, `nn.LSTM` or `nn.GRU` once;
`y, state = fast(x)` then gives what `lstm(x)` gives.
"""

from minigrad.recurrent.cuda import CUDA
from minigrad.recurrent.mpi import MPI
from minigrad.recurrent.openmp import OpenMP
from minigrad.recurrent.runner import NumPy, Runner

__all__ = ["CUDA", "MPI", "NumPy", "OpenMP", "Runner"]
