"""00: a first gradient."""

from minigrad.workbook import PythonExercise, Wrong

cube_gradient = PythonExercise(
    "00",
    task=r"""
**A gradient of your own.** Make the gradient of $y = \sum x^3$. The rate of $x^3$ is $3x^2$, so for `x = [1, 2, 3]` it
should be `[3, 12, 27]`. Change the marked line, run both cells, and the check tells you at once.
""",
    solution="""
def cube_gradient(numbers):
    x = mg.tensor(numbers, requires_grad=True)
    #> y = (x * x).sum()  # <- change this line
    y = (x**3).sum()
    #<
    y.backward()
    return x.grad.numpy()
""",
    hints=[
        "the line makes y from x. The tape works out the rate by itself.",
        "x ** 3 works on tensors, as it does in NumPy. Keep the .sum().",
    ],
    wrong=[
        Wrong("(x**3).sum()", "(x**3).mean()", "value", "This is the mean: it divides every rate, too."),
        Wrong("(x**3).sum()", "x**3", "raised", "A gradient starts from one number: add the elements up with .sum()."),
        Wrong("(x**3).sum()", "3 * (x**2).sum()", "value",
              "This writes down the rate. Write y itself, and leave the rate to the tape."),
        Wrong("x.grad.numpy()", "x.numpy()", "value", "This is x itself; its gradient is x.grad."),
        Wrong(", requires_grad=True", "", "raised", "The tape has to know of which tensor a gradient is wanted."),
    ],
    truth=lambda x: 3 * x**2,
    cases=[([1.0, 2.0, 3.0],), ([-2.0, 0.5],)],
)  # fmt: skip
