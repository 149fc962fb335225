"""Exercises: their framework. The exercises themselves are the files of `course/`."""

from minigrad.lab.exercises.exercise import Exercise, PythonExercise, Wrong, slopes
from minigrad.lab.exercises.kernel import KernelExercise, numbers

__all__ = ["Exercise", "KernelExercise", "PythonExercise", "Wrong", "numbers", "slopes"]
