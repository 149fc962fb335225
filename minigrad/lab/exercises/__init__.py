"""Exercises: their framework. The exercises themselves are the files of `course/`."""

from minigrad.lab.exercises.exercise import Exercise, PythonExercise, Wrong, slopes
from minigrad.lab.exercises.kernel import KernelExercise, numbers
from minigrad.lab.exercises.prediction import Prediction

__all__ = ["Exercise", "KernelExercise", "Prediction", "PythonExercise", "Wrong", "numbers", "slopes"]
