"""Kernels of the adjoint's ladder, written for NVIDIA Warp.

Parameters are those of the ladder's kernels, except that a kernel in place writes to an array of its own: otherwise
Warp's gradient is wrong. A variable that a loop changes is declared as float(0.0), as Warp requires.
"""

# mypy: ignore-errors
# ruff: noqa: UP018
import warp as wp

VECTOR9 = wp.types.vector(9, wp.float32)
VECTOR5 = wp.types.vector(5, wp.float64)
WHOLE9 = wp.types.vector(9, wp.int32)
CX = wp.constant(WHOLE9(0, 1, 0, -1, 0, 1, -1, -1, 1))
CY = wp.constant(WHOLE9(0, 0, 1, 0, -1, 1, 1, -1, -1))
BACK = wp.constant(WHOLE9(0, 3, 4, 1, 2, 7, 8, 5, 6))
WEIGHT = wp.constant(VECTOR9(4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36))
reals, doubles, wholes = wp.array(dtype=wp.float32), wp.array(dtype=wp.float64), wp.array(dtype=wp.int32)


@wp.kernel
def axpy(a: float, x: reals, y: reals, out: reals, n: int):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.func
def softplus(x: float):
    if x > 0.0:
        return x + wp.log(1.0 + wp.exp(-x))
    return wp.log(1.0 + wp.exp(x))


@wp.kernel
def elementwise(x: reals, a: float, y: reals, n: int):
    i = wp.tid()
    y[i] = softplus(x[i]) + wp.where(x[i] > 0.0, x[i], a * x[i])


@wp.kernel
def gelu(x: reals, y: reals, n: int):
    i = wp.tid()
    y[i] = 0.5 * x[i] * (1.0 + wp.erf(x[i] * 0.7071067811865476))


@wp.kernel
def gather(x: reals, index: wholes, y: reals, n: int):
    i = wp.tid()
    y[i] = x[index[i]]


@wp.kernel
def scatter(x: reals, index: wholes, y: reals, n: int):
    i = wp.tid()
    wp.atomic_add(y, index[i], x[i])


@wp.kernel
def sum_of_squares(x: reals, y: reals, n: int, m: int):
    i = wp.tid()
    total = float(0.0)
    for j in range(m):
        total += x[j * n + i] * x[j * n + i]
    y[i] = total


@wp.kernel
def product(x: reals, y: reals, n: int, m: int):
    i = wp.tid()
    p = float(1.0)
    for j in range(m):
        p *= x[j * n + i]
    y[i] = p


@wp.kernel
def laplacian(x: reals, k: float, y: reals, rows: int, columns: int):
    i = wp.tid()
    c = i % columns
    r = i // columns
    total = -4.0 * x[r * columns + c]
    if r > 0:
        total += x[(r - 1) * columns + c]
    if r < rows - 1:
        total += x[(r + 1) * columns + c]
    if c > 0:
        total += x[r * columns + c - 1]
    if c < columns - 1:
        total += x[r * columns + c + 1]
    y[r * columns + c] = k * total


@wp.kernel
def matmul_tiled(a: reals, b: reals, c: reals, m: int, n: int, k: int):
    i = wp.tid()
    row = i // n
    column = i % n
    total = float(0.0)
    for j in range(k):
        total += a[row * k + j] * b[j * n + column]
    c[row * n + column] = total


@wp.kernel
def nbody(p: reals, softening: float, a: reals, n: int):
    i = wp.tid()
    cloud = i // n * n
    here = wp.vec3(p[3 * i], p[3 * i + 1], p[3 * i + 2])
    total = wp.vec3(0.0, 0.0, 0.0)
    for j in range(cloud, cloud + n):
        away = wp.vec3(p[3 * j], p[3 * j + 1], p[3 * j + 2]) - here
        square = wp.dot(away, away) + softening
        total += away / (square * wp.sqrt(square))
    a[3 * i] = total[0]
    a[3 * i + 1] = total[1]
    a[3 * i + 2] = total[2]


@wp.kernel
def lbm_d2q9(f: reals, solid: wholes, omega: float, g: reals, width: int, height: int):
    cell = wp.tid()
    x = cell % width
    y = cell // width
    n = width * height
    here = VECTOR9()
    density = float(0.0)
    ux = float(0.0)
    uy = float(0.0)
    for q in range(9):
        source = (y - CY[q] + height) % height * width + (x - CX[q] + width) % width
        if solid[source] != 0:
            here[q] = f[BACK[q] * n + cell]
        else:
            here[q] = f[q * n + source]
        density += here[q]
        ux += float(CX[q]) * here[q]
        uy += float(CY[q]) * here[q]
    vx = ux / density
    vy = uy / density
    energy = 1.5 * (vx * vx + vy * vy)
    for q in range(9):
        along = 3.0 * (float(CX[q]) * vx + float(CY[q]) * vy)
        rest = WEIGHT[q] * density * (1.0 + along + 0.5 * along * along - energy)
        if solid[cell] != 0:
            g[q * n + cell] = here[q]
        else:
            g[q * n + cell] = here[q] + omega * (rest - here[q])


@wp.func
def below(grid: doubles, e: wp.float64, first: int, last: int):
    low = int(first)
    high = int(last)
    while high - low > 1:
        middle = (low + high) // 2
        if grid[middle] > e:
            high = middle
        else:
            low = middle
    return low


@wp.kernel
def cross_sections(
    energy: doubles, material: wholes, grid: doubles, xs: doubles, concentration: doubles, nuclide: wholes,
    count: wholes, macro: doubles, lookups: int, points: int, places: int,
):  # fmt: skip
    i = wp.tid()
    e = energy[i]
    m = material[i]
    total = VECTOR5()
    for j in range(count[m]):
        first = nuclide[m * places + j] * points
        low = below(grid, e, first, first + points - 1)
        f = (grid[low + 1] - e) / (grid[low + 1] - grid[low])
        for c in range(5):
            above = xs[(low + 1) * 5 + c]
            under = xs[low * 5 + c]
            total[c] += concentration[m * places + j] * (above - f * (above - under))
    for c in range(5):
        macro[i * 5 + c] = total[c]


@wp.kernel
def multipole_cold(
    energy: doubles, window: wholes, pole: doubles, residue: doubles, count: wholes, broadening: wp.float64,
    sigma: doubles, lookups: int, places: int,
):  # fmt: skip
    i = wp.tid()
    root = wp.sqrt(energy[i])
    total = wp.float64(0.0)
    w = window[i]
    for j in range(count[w]):
        at = 2 * (w * places + j)
        x = root - pole[at]
        y = -pole[at + 1]
        # Divided in the loop: after it Warp has lost the sum, and its gradient of energy is wrong.
        total += (residue[at] * y - residue[at + 1] * x) / ((x * x + y * y) * energy[i])
    sigma[i] = total
