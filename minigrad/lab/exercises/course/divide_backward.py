"""02: the gradient rule of a quotient."""

from minigrad.lab.exercises import PythonExercise, Wrong, slopes

divide_backward = PythonExercise(
    "02",
    task="""
**The rule of a quotient.** Write the gradient rule of $y = a / b$: `dy` arrives, `da` and `db` are handed on. The check
pushes $a$ and $b$ a little up and down and compares.
""",
    solution="""
def divide_backward(dy, a, b):
    #> return 0.0, 0.0  # <- your rule: da, db
    return dy / b, -dy * a / b**2
    #<
""",
    hints=[
        "y = a / b = a * (1 / b). For da, b is a constant: how much does y grow when a grows by 1?",
        "the rate of 1 / b is -1 / b**2.",
        "each rate is multiplied by dy, the gradient that arrives.",
    ],
    wrong=[
        Wrong("-dy", "dy", "value", "A larger b makes y = a / b smaller, so db has the other sign."),
        Wrong("b**2", "b", "value", "The rate of 1 / b is -1 / b**2: the square is missing."),
        Wrong("-dy * a / b**2", "-dy / b**2", "value", "y = a * (1 / b): in db the factor a is missing."),
        Wrong("dy / b,", "dy * b,", "value", "When a grows by 1, y grows by 1 / b."),
        Wrong("dy / b, -dy", "1 / b, -1", "value", "These are the rates alone. Multiply by dy, which arrives."),
        Wrong("dy / b, -dy * a / b**2", "dy / b", "shape", "There are two inputs, so return two numbers: da, db."),
        Wrong("dy / b, -dy * a / b**2", "-dy * a / b**2, dy / b", "value", "The order is da, db: as the inputs are."),
    ],
    truth=lambda dy, a, b: dy * slopes(lambda a, b: a / b, a, b),
    cases=[(2.0, 3.0, 4.0), (1.0, -1.0, 0.5), (-3.0, 2.0, -4.0)],
)  # fmt: skip
