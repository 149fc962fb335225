"""What an exercise is. The exercises themselves are the files of `minigrad/exercises/`."""

from minigrad.workbook.exercise import Exercise, Text, Wrong
from minigrad.workbook.kernel import KernelExercise, numbers
from minigrad.workbook.python import PythonExercise

__all__ = ["Exercise", "KernelExercise", "PythonExercise", "Text", "Wrong", "numbers"]
