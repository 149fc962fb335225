"""15b: a loop reversed by hand, with two of its rules broken."""

from typing import Any

import numpy as np

from minigrad.lab import show
from minigrad.lab.exercises import KernelExercise, Wrong, numbers
from minigrad.microscope import Inspection


def reference(x: np.ndarray, caught: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One column of dy / d(x, caught) after another, forwards: each input's influence is followed through the years."""

    def influence(of_x: bool, year: int) -> np.ndarray:
        p, change = x, np.full_like(x, of_x)
        for j, catch in enumerate(caught):
            p, change = p + p * (1 - p) / 2 - catch, change * (1.5 - p) - (not of_x and j == year)
        return (change * dy).astype(np.float32)

    return influence(True, 0), np.stack([influence(False, year) for year in range(len(caught))])


def years(record: Inspection) -> Any:
    """The years in the order in which the first thread comes to them; None where it touches nothing."""
    return show.timeline(record) if (record.traffic["thread"] == 0).any() else None


stock_backward = KernelExercise(
    "15b",
    task=r"""
**Fish, year by year.** Thread $i$ follows the stock $p$ of a lake. Each year it grows by $p(1 - p)/2$, and a part of it
is caught:

```
float p = x[i];
for (int j = 0; j < years; ++j) {
    p += 0.5f * p * (1 - p) - caught[j * n + i];
}
y[i] = p;
```

How does the stock at the end depend on the stock at the start, and on the catch of each year? The adjoint below was
written in a hurry. **Two** of its lines are in the wrong place or run the wrong way. Find and mend them. There are at
most 16 years, and `dx` and `dcaught` may hold anything at the start.
""",
    solution="""
extern "C" __global__ void stock_backward(
    const float* x, const float* caught, const float* dy,
    float* dx, float* dcaught, int n, int years) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float kept[16];
        float p = x[i];
        for (int j = 0; j < years; ++j) {
            //> p += 0.5f * p * (1 - p) - caught[j * n + i];
            //> kept[j] = p;
            kept[j] = p;
            p += 0.5f * p * (1 - p) - caught[j * n + i];
            //<
        }
        float d_p = dy[i];
        //> for (int j = 0; j < years; ++j) {
        for (int j = years - 1; j >= 0; --j) {
        //<
            dcaught[j * n + i] = -d_p;
            d_p *= 1.5f - kept[j];
        }
        dx[i] = d_p;
    }
}
""",
    bug=True,
    show=years,
    hints=[
        "Take two years and one lake, and write down what kept[0] and kept[1] have to be.",
        "The growth of year j depends on the stock at the start of year j. Is that what kept[j] holds?",
        "The catch of the last year changes y alone; that of the first year changes every year after it. Does dcaught "
        "of year 0 need the first d_p, or one that has come through all later years?",
    ],
    wrong=[
        Wrong("int j = years - 1; j >= 0; --j", "int j = 0; j < years; ++j", "value",
              "The second loop runs forwards. What year j hands on must have come through all later years."),
        Wrong("kept[j] = p;\n            p += 0.5f * p * (1 - p) - caught[j * n + i];",
              "p += 0.5f * p * (1 - p) - caught[j * n + i];\n            kept[j] = p;", "value",
              "kept[j] holds the stock after year j. Its growth was computed from the stock before: keep it first."),
        Wrong("1.5f - kept[j]", "1.5f - p", "value",
              "p is the stock at the very end: every year has overwritten it. Take what was kept of year j."),
        Wrong("1.5f - kept[j]", "1.5f - kept[years - 1 - j]", "value",
              "The loop over j runs backwards already: year j takes kept[j]. This reverses the order twice."),
        Wrong("int j = years - 1; j >= 0; --j) {\n            dcaught[j * n + i] = -d_p;\n"
              "            d_p *= 1.5f - kept[j]",
              "int j = 0; j < years; ++j) {\n            dcaught[j * n + i] = -d_p;\n"
              "            d_p *= 1.5f - kept[years - 1 - j]", "value",
              "Only kept runs backwards here: dcaught still gets its portions in the wrong order. Reverse the loop."),
        Wrong("1.5f - kept[j]", "0.5f - kept[j]", "value",
              "p += ... reads p, too: to the slope of the growth, 0.5 - p, comes 1."),
        Wrong("dcaught[j * n + i] = -d_p;\n            d_p *= 1.5f - kept[j];",
              "d_p *= 1.5f - kept[j];\n            dcaught[j * n + i] = -d_p;", "value",
              "The catch of year j is taken from the stock at the end of that year: its portion is d_p from before the "
              "growth of year j."),
        Wrong("= -d_p", "= d_p", "value", "What is caught is taken away: the portion is -d_p."),
        Wrong("float d_p = dy[i]", "float d_p = 1", "value", "The walk back starts from dy[i]."),
        Wrong("dcaught[j * n + i] =", "dcaught[i * years + j] =", "value",
              "The catch of year j and lake i is in element j * n + i, as in the way forward."),
        Wrong("j >= 0", "j > 0", "value", "The year 0 is a year as well: j >= 0."),
        Wrong("int j = years - 1", "int j = years", "out-of-bounds", "The last year is years - 1."),
        Wrong("dcaught[j * n + i] = -", "dcaught[j * n + i] -= ", "uninitialised",
              "`dcaught` may hold anything at the start. One thread owns the element, and comes by once: store."),
        Wrong("dx[i] = d_p;", "", "never-written", "What is left of d_p at the end is the gradient of x[i]: store it."),
        Wrong("(i < n)", "(i <= n)", "out-of-bounds", "There are n lakes: the guard is i < n."),
    ],
    reference=reference,
    arguments=lambda x, caught, dy: {
        "dx": x.shape, "dcaught": caught.shape, "n": x.size, "years": caught.shape[0],
    },
    inputs=[(np.float32(0.5) + abs(numbers(n)) / 16, abs(numbers(years, n, seed=1)) / 128, numbers(n, seed=2))
            for n, years in ((3, 2), (1, 1), (33, 16), (257, 3))],
)  # fmt: skip
