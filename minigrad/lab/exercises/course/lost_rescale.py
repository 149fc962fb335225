"""12: an online softmax whose sum of values is not scaled down when a larger score comes."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(s: np.ndarray, v: np.ndarray) -> np.ndarray:
    """In float64, with all scores at hand."""
    weights = np.exp(s.astype(np.float64) - s.max(axis=1, keepdims=True))
    return (weights @ v) / weights.sum(axis=1)


lost_rescale = KernelExercise(
    "12",
    task=r"""
**Right when the first score is the largest.** A thread takes a row of scores and makes $\sum_j p_j v_j$ in one pass,
with $p$ the softmax of the row. (Each value is a single number here.) Its author tried rows whose scores fall from left
to right, and all results were right. On other rows they are wrong. Hold the loop against the invariant of the page, and
mend it. `fmaxf` is the larger of two numbers.
""",
    solution="""
extern "C" __global__ void lost_rescale(
    const float* s, const float* v, float* y, int rows, int keys) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        float most = -INFINITY, total = 0, sum = 0;
        for (int j = 0; j < keys; ++j) {
            float score = s[i * keys + j];
            float larger = fmaxf(most, score);
            float kept = expf(most - larger);
            float weight = expf(score - larger);
            total = total * kept + weight;
            //> sum = sum + weight * v[j];
            sum = sum * kept + weight * v[j];
            //<
            most = larger;
        }
        y[i] = sum / total;
    }
}
""",
    bug=True,
    hunt=True,
    hints=[
        "The invariant: after key j, total and sum are what a softmax over the keys up to j would have, all with the "
        "same maximum. Which of the two breaks it when `most` changes?",
        "with a row of falling scores `kept` is 1 from the second key on. What is it multiplied with?",
        "both sums were made with the old maximum: both are multiplied by `kept`.",
    ],
    wrong=[
        Wrong("total = total * kept + weight", "total = total + weight", "value",
              "`total` was added up with the old maximum, too: it is multiplied by `kept`."),
        Wrong("sum = sum * kept + weight * v[j]", "sum = (sum + weight * v[j]) * kept", "value",
              "The new term has the new maximum already. Only what was there before is scaled down."),
        Wrong("sum = sum * kept + weight * v[j]", "sum = sum * kept + v[j]", "value",
              "The value comes with its weight: weight * v[j]."),
        Wrong("sum = sum * kept + weight * v[j]", "sum = sum * weight + kept * v[j]", "value",
              "`kept` belongs to what was there before, `weight` to the new value."),
        Wrong("sum = sum * kept + weight * v[j]", "sum = sum / kept + weight * v[j]", "nan",
              "A larger maximum makes all earlier weights smaller: multiply by `kept`. (At the first key, it is 0.)"),
        Wrong("            most = larger;\n", "", "value",
              "The new maximum must be remembered for the next key: most = larger."),
        Wrong("float kept = expf(most - larger);", "float kept = expf(larger - most);", "nan",
              "A larger maximum makes the earlier weights smaller: exp(most - larger) is at most 1."),
        Wrong("float weight = expf(score - larger);", "float weight = expf(score - most);", "nan",
              "Before the first key `most` is minus infinity. The new weight is relative to `larger`, the new one."),
        Wrong("float larger = fmaxf(most, score);", "float larger = score;", "nan",
              "That is the last score and not the largest: where they fall steeply, exp(most - larger) is infinite."),
        Wrong("y[i] = sum / total", "y[i] = sum", "value", "The weights must add up to 1: divide by `total`."),
        Wrong("s[i * keys + j]", "s[j * rows + i]", "value", "A row of scores has `keys` numbers: s[i * keys + j]."),
        Wrong("j < keys", "j < keys - 1", "value", "The last key counts as well."),
        Wrong("i < rows", "true", "out-of-bounds", "The last block has more threads than there are rows left."),
    ],
    reference=reference,
    arguments=lambda s, v: {"y": s.shape[:1], "rows": s.shape[0], "keys": s.shape[1]},
    inputs=[
        *((numbers(*shape) * scale, numbers(shape[1], seed=1))
          for shape, scale in (((3, 4), 1), ((1, 2), 1), ((5, 3), 20), ((33, 7), 1), ((2, 40), 4))),
        (np.array([[0, 100], [100, 0]], np.float32), np.array([1, 2], np.float32)),
    ],
    sizes="rows",
)  # fmt: skip
