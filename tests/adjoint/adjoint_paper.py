"""Inputs for the kernels of cuda/adjoint/paper: tables of nuclides in the dtypes of the kernels' own structs."""

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


def struct(names, formats, offsets, size):
    return np.dtype({"names": names.split(), "formats": formats, "offsets": offsets, "itemsize": size})


POLE = struct("position total absorption fission l", [COMPLEX] * 4 + ["<i4"], [0, 16, 32, 48, 64], 72)
WINDOW = struct("total absorption fission first last", ["<f8"] * 3 + ["<i4"] * 2, [0, 8, 16, 24, 28], 32)
RESONANCES = struct("lookups windows most_poles places doppler seed", ["<i4"] * 5 + ["<u8"], [0, 4, 8, 12, 16, 24], 32)


def multipole(rng, lookups, nuclides, windows, poles_each, places, doppler):
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
    for name, value in zip(RESONANCES.names, (lookups, windows, poles.shape[1], places, doppler, 0), strict=True):
        problem[name] = value
    energy, material = 0.02 + 0.97 * rng.random(lookups), rng.integers(0, MATERIALS, lookups).astype(np.int32)
    tables = [count, nuclide_of, rng.random((MATERIALS, places)), table.ravel(), poles.ravel()]
    return [problem[()], energy, material, *tables, rng.random((nuclides, 4)), np.zeros((lookups, 4))]
