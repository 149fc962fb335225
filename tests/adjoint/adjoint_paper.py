"""Inputs for the kernels of cuda/adjoint/paper: tables of nuclides in the dtypes of the kernels' own structs."""

import numpy as np

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


def lookup(rng, lookups, nuclides, points, places, grid_type):
    """The arguments of `lookup`: random cross-sections on sorted random energies, materials of `places` nuclides."""
    grid = np.zeros((nuclides, points), POINT)
    for name in POINT.names:
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
    for name, value in zip(PROBLEM.names, (lookups, nuclides, points, places, grid_type, 42), strict=True):
        problem[name] = value
    density = rng.random((MATERIALS, places))
    return [problem[()], count, nuclide_of, density, union, index, grid.ravel(), np.zeros((lookups, 5))]
