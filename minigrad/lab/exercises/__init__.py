"""Exercises: their framework. The exercises themselves are the files of `course/`."""

from minigrad.lab.exercises.as_op import AsOp
from minigrad.lab.exercises.exercise import Exercise, PythonExercise, Wrong, slopes
from minigrad.lab.exercises.kernel import KernelExercise, numbers
from minigrad.lab.exercises.prediction import Prediction

__all__ = ["AsOp", "Exercise", "KernelExercise", "Prediction", "PythonExercise", "Wrong", "numbers", "slopes"]
