"""06: the gradient of a product of matrices is a product of matrices."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import two_matrices

SHAPES = ((1, 1, 1), (1, 2, 3), (8, 8, 8), (9, 7, 3), (3, 0, 2), (33, 17, 20))

matmul_gradient = KernelExercise(
    "06",
    task=r"""
**Multiply by a transpose.** For $c = a\,b$ the gradient of $a$ is $da = dc\,b^T$. Here $dc$ has the shape $(m, n)$
and $b$ the shape $(k, n)$; nothing is transposed in memory:

$$da_{ip} = \sum_j dc_{ij}\, b_{pj}$$

Write the simple kernel for it, one thread for each element of $da$. Arrays are flat in memory, row after row: element
$(i, p)$ of $da$ is `da[i * k + p]`.
""",
    solution="""
extern "C" __global__ void matmul_gradient(
    const float* dc, const float* b, float* da, int m, int n, int k) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < m && p < k) {
        float sum = 0;
        //> // your code
        for (int j = 0; j < n; ++j) {
            sum += dc[i * n + j] * b[p * n + j];
        }
        //<
        da[i * k + p] = sum;
    }
}
""",
    hints=[
        "a loop over j from 0 to n - 1 that adds one product each time.",
        "element (i, j) of dc is dc[i * n + j]. And element (p, j) of b? It has as many elements in a row as dc.",
    ],
    wrong=[
        Wrong("sum +=", "sum =", "value", "`=` keeps the last product alone. Every one is added: `+=`."),
        Wrong("b[p * n + j]", "b[j * k + p]", "value",
              "This is element (j, p) of b. The sum runs along row p: element (p, j) is b[p * n + j]."),
        Wrong("dc[i * n + j]", "dc[j * m + i]", "value", "A row of dc has n elements: (i, j) is dc[i * n + j]."),
        Wrong("j < n", "j < k", "out-of-bounds", "The sum runs along the rows of dc and b, which have n elements."),
        Wrong("j < n", "j < n - 1", "value", "The last element of a row is n - 1, and it is left out."),
        Wrong("int j = 0", "int j = 1", "value", "Elements are counted from 0."),
        Wrong("b[p * n + j]", "b[p * k + j]", "out-of-bounds", "b has k rows of n elements: row p starts at p * n."),
        Wrong("dc[i * n + j]", "dc[p * n + j]", "out-of-bounds",
              "The row of da is the row of dc, which is i; p counts the columns of da and the rows of b."),
        Wrong("dc[i * n + j] * b[p * n + j]", "dc[i * n + j] + b[p * n + j]", "value",
              "The formula multiplies the two numbers, and adds up the products."),
        Wrong("dc[i * n + j] * b[p * n + j]", "dc[i * n + p] * b[p * n + p]", "out-of-bounds",
              "The index of the sum, j, is missing: every turn of the loop takes the same two numbers."),
        Wrong("        for (int j = 0; j < n; ++j) {\n            sum += dc[i * n + j] * b[p * n + j];\n        }",
              "        int j = p;\n        sum += dc[i * n + j] * b[p * n + j];", "out-of-bounds",
              "One product is not the sum: all columns j count, so a loop goes over j."),
    ],
    reference=lambda dc, b: dc @ b.T,
    arguments=lambda dc, b: {"da": (dc.shape[0], b.shape[0]), "m": dc.shape[0], "n": dc.shape[1], "k": b.shape[0]},
    inputs=[(numbers(m, n), numbers(k, n, seed=1)) for m, n, k in SHAPES],
    grid=("k/TILE", "m/TILE"),
    block=("TILE", "TILE"),
    sizes="m k",
    tunables={"TILE": (8, 4, 16)},
    op=AsOp("matmul", "a @ b^T", two_matrices),
)  # fmt: skip
