"""What an exercise is. The exercises themselves are the files of `minigrad/exercises/`."""

from minigrad.lab.exercises.exercise import Exercise, Text, Wrong
from minigrad.lab.exercises.kernel import KernelExercise, numbers
from minigrad.lab.exercises.python import PythonExercise

__all__ = ["Exercise", "KernelExercise", "PythonExercise", "Text", "Wrong", "numbers"]
