"""Arguments for the kernels of cuda/adjoint/paper: tables of nuclides, a lattice, a mesh of hexahedra, elements."""

from typing import Any

import numpy as np

COMPLEX = np.dtype([("re", "<f8"), ("im", "<f8")])

POINT = np.dtype([(name, "<f8") for name in ("energy", "total", "elastic", "absorption", "fission", "nu_fission")])
PROBLEM = np.dtype(
    {
        "names": ["lookups", "nuclides", "points", "places", "grid_type", "seed"],
        "formats": ["<i4"] * 5 + ["<u8"],
        "offsets": [0, 4, 8, 12, 16, 24],
        "itemsize": 32,
    }
)
MATERIALS = 12


def lookup(
    rng: np.random.Generator, lookups: int, nuclides: int, points: int, places: int, grid_type: int
) -> list[Any]:
    """The arguments of `lookup`: random cross-sections on sorted random energies, materials of `places` nuclides."""
    grid = np.zeros((nuclides, points), POINT)
    for name in POINT.names or ():
        grid[name] = rng.random((nuclides, points))
    grid["energy"].sort(axis=1)
    grid["energy"][:, [0, -1]] = 0, 1  # every energy lies in every grid
    union = np.sort(grid["energy"].ravel())
    index = np.zeros((union.size if grid_type else 1, nuclides), np.int32)
    for n in range(nuclides if grid_type else 0):
        index[:, n] = np.clip(np.searchsorted(grid["energy"][n], union, "right") - 1, 0, points - 1)
    count = rng.integers(1, places + 1, MATERIALS).astype(np.int32)
    count[0] = places  # fuel has the most
    nuclide_of = rng.integers(0, nuclides, (MATERIALS, places)).astype(np.int32)
    problem = np.zeros((), PROBLEM)
    for name, value in zip(PROBLEM.names or (), (lookups, nuclides, points, places, grid_type, 42), strict=True):
        problem[name] = value
    density = rng.random((MATERIALS, places))
    return [problem[()], count, nuclide_of, density, union, index, grid.ravel(), np.zeros((lookups, 5))]


def struct(names: str, formats: list[Any], offsets: list[int], size: int) -> np.dtype:
    return np.dtype({"names": names.split(), "formats": formats, "offsets": offsets, "itemsize": size})


POLE = struct("position total absorption fission l", [COMPLEX] * 4 + ["<i4"], [0, 16, 32, 48, 64], 72)
WINDOW = struct("total absorption fission first last", ["<f8"] * 3 + ["<i4"] * 2, [0, 8, 16, 24, 28], 32)
RESONANCES = struct("lookups windows most_poles places doppler seed", ["<i4"] * 5 + ["<u8"], [0, 4, 8, 12, 16, 24], 32)


def multipole(
    rng: np.random.Generator, lookups: int, nuclides: int, windows: int, poles_each: int, places: int, doppler: int
) -> list[Any]:
    """The arguments of the `lookup` of rsbench.cu: `poles_each` poles in each window, at its energies."""
    poles = np.zeros((nuclides, windows * poles_each), POLE)
    for name in ("total", "absorption", "fission"):
        for part in ("re", "im"):
            poles[name][part] = rng.standard_normal(poles.shape)
    at = np.repeat(np.sqrt((np.arange(windows) + 0.5) / windows), poles_each)
    poles["position"]["re"] = at + 0.02 * rng.standard_normal(poles.shape)
    poles["position"]["im"] = -0.05 - 0.1 * rng.random(poles.shape)  # the Faddeeva function above the real axis
    poles["l"] = rng.integers(0, 4, poles.shape)
    table = np.zeros((nuclides, windows), WINDOW)
    for name in ("total", "absorption", "fission"):
        table[name] = rng.random(table.shape)
    table["first"] = np.arange(windows) * poles_each
    table["last"] = table["first"] + rng.integers(0, poles_each, table.shape)
    count = rng.integers(1, places + 1, MATERIALS).astype(np.int32)
    nuclide_of = rng.integers(0, nuclides, (MATERIALS, places)).astype(np.int32)
    problem = np.zeros((), RESONANCES)
    for name, value in zip(RESONANCES.names or (), (lookups, windows, poles.shape[1], places, doppler, 0), strict=True):
        problem[name] = value
    energy, material = 0.02 + 0.97 * rng.random(lookups), rng.integers(0, MATERIALS, lookups).astype(np.int32)
    tables = [count, nuclide_of, rng.random((MATERIALS, places)), table.ravel(), poles.ravel()]
    return [problem[()], energy, material, *tables, rng.random((nuclides, 4)), np.zeros((lookups, 4))]


def lattice(rng: np.random.Generator, cells: int) -> list[Any]:
    """The arguments of `stream_collide` of lbm.cu: one cell in four reflects, one in eight is set in motion."""
    flags = rng.choice(np.array([0, 0, 0, 0, 0, 1, 1, 2], np.uint8), cells)
    src = 0.5 + rng.random(19 * cells, np.float32)
    return [src, np.zeros_like(src), flags, 1.3]


def elements(rng: np.random.Generator, count: int) -> list[Any]:
    """The arguments of `volume_term` of dg.cu: air at rest but for noise, in cubes that are slightly skewed."""
    state = 0.1 * rng.standard_normal((count, 5, 125), np.float32)
    state += np.array([1, 0, 0, 0, 250], np.float32)[:, None]
    geometry = 0.1 * rng.standard_normal((count, 12, 125), np.float32)
    geometry += np.array([1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1], np.float32)[:, None]
    matrix, rhs = rng.standard_normal(25, np.float32), rng.standard_normal(count * 625, np.float32)
    return [state.ravel(), geometry.ravel(), matrix, rhs]


MATERIAL = struct(
    "energy_cut pressure_cut viscosity_cut energy_min pressure_min density volume_min volume_max", ["<f8"] * 8,
    [*range(0, 64, 8)], 64,
)  # fmt: skip


class Mesh:
    """A cube of `side`^3 hexahedra with noise on the places of its nodes, and a gas in them that is in motion."""

    def __init__(self, rng: np.random.Generator, side: int):
        self.rng, self.count = rng, side**3
        index = np.arange((side + 1) ** 3, dtype=np.int32).reshape(side + 1, side + 1, side + 1)
        low, high = slice(None, -1), slice(1, None)
        ring = [(low, low), (low, high), (high, high), (high, low)]  # y and x of the corners around the bottom
        self.nodes = np.stack([index[z, y, x] for z in (low, high) for y, x in ring], -1).ravel()
        places = np.stack(np.meshgrid(*[np.arange(side + 1.0)] * 3, indexing="ij"))[::-1] / side
        noise = rng.standard_normal(places.shape) * 0.03 / side
        self.x, self.y, self.z = (axis.ravel().copy() for axis in places + noise)
        self.velocity = [0.1 * v for v in rng.standard_normal((3, index.size))]
        self.volume = np.full(self.count, float(side) ** -3)

    def random(self, low: float, high: float) -> np.ndarray:
        """A number for each element."""
        return low + (high - low) * self.rng.random(self.count)

    def zeros(self, each: int = 1) -> np.ndarray:
        return np.zeros(each * self.count)

    @property
    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        """The corners that lie at each node, behind one another, and where those of each node begin."""
        order = np.argsort(self.nodes, kind="stable").astype(np.int32)
        first = np.searchsorted(self.nodes[order], np.arange(self.x.size + 1)).astype(np.int32)
        return first, order

    @property
    def neighbors(self) -> np.ndarray:
        """The element below and above along each axis; at a boundary the element itself."""
        side = round(self.count ** (1 / 3))
        e = np.arange(self.count, dtype=np.int32).reshape(side, side, side)
        found = []
        for axis in (2, 1, 0):
            below, above = (np.clip(np.arange(side) + step, 0, side - 1) for step in (-1, 1))
            found += [np.take(e, below, axis).ravel(), np.take(e, above, axis).ravel()]
        return np.concatenate(found)


def hydrodynamics(rng: np.random.Generator, side: int, kernel: str) -> list[Any]:
    """The arguments of a kernel of lulesh.cu, for side^3 elements."""
    m, n = Mesh(rng, side), side**3
    places = [m.nodes, m.x, m.y, m.z]
    match kernel:
        case "stress_force":
            return [*places, m.random(0, 1), m.random(0, 1), *(m.zeros(8) for _ in "xyz"), n]
        case "hourglass_force":
            force = [rng.standard_normal(8 * n) for _ in "xyz"]
            return [*places, *m.velocity, m.random(1, 2), m.random(0, 1), 3.0, *force, n]
        case "node_motion":
            force, mass = [rng.standard_normal(8 * n) for _ in "xyz"], 1 + rng.random(m.x.size)
            return [*m.corners, *force, mass, 0.01, 1e-7, m.x, m.y, m.z, *m.velocity, m.x.size]
        case "kinematics":
            return [*places, *m.velocity, m.volume, m.random(0.9, 1.1), 0.01, *(m.zeros() for _ in range(4)), n]
        case "viscosity_gradient":
            return [*places, *m.velocity, m.volume, m.random(0.9, 1.1), m.zeros(3), m.zeros(3), n]
        case "viscosity":
            slope, length, rate = rng.standard_normal(3 * n), 1 + rng.random(3 * n), m.random(-1, 0.5)
            tables = [m.neighbors, slope, length, rate, m.random(1, 2), m.volume, m.random(0.9, 1.1)]
            return [*tables, 2.0, 1.0, m.zeros(), m.zeros(), n]
        case "material":
            values, repeats = (1e-7, 1e-7, 1e-7, -1e15, 0.0, 1.0, 1e-9, 1e9), np.where(np.arange(n) % 8, 1, 10)
            state = [m.random(0.9, 1.1), m.random(-0.1, 0.1), m.random(0, 1), m.random(0, 1)]
            old = [m.random(0.5, 1.5), m.random(0, 1), m.random(0, 0.1)]
            new = [m.zeros() for _ in range(4)]
            return [*state, repeats.astype(np.int32), np.array(values).view(MATERIAL)[0], *old, *new, n]
    blocks = -(-n // 128)
    return [m.random(0.5, 1), m.random(-1, 1), m.random(0.5, 1), 2.0, 0.1, np.zeros(blocks), np.zeros(blocks), n]
