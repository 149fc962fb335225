"""Exercises: their framework. The exercises themselves are the files of `course/`."""

from minigrad.lab.exercises.as_op import AsOp
from minigrad.lab.exercises.exercise import Exercise, PythonExercise, Wrong, slopes
from minigrad.lab.exercises.kernel import KernelExercise, numbers

__all__ = ["AsOp", "Exercise", "KernelExercise", "PythonExercise", "Wrong", "numbers", "slopes"]
