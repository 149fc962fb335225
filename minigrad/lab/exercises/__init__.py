"""Exercises: their framework. The exercises themselves are the files of `course/`."""

from minigrad.lab.exercises.exercise import Exercise, Wrong
from minigrad.lab.exercises.kernel import KernelExercise, numbers
from minigrad.lab.exercises.python import PythonExercise

__all__ = ["Exercise", "KernelExercise", "PythonExercise", "Wrong", "numbers"]
