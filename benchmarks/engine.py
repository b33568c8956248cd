"""The engine's speed: each figure a ratio of two ways, timed in turns on one core.

    python benchmarks/engine.py            all claims, some minutes
    python benchmarks/engine.py --only b,c
    python benchmarks/engine.py --tiny     small sizes, for a look at whether it runs

Baselines are in this file. Times are processor time; of each way the median over the
turns counts, and the least is printed beside it. For figures worth quoting let the
machine do nothing else: caches and memory are shared.

a   36 columns, noise at every step: against the literal loop, column by column, with
    Numba's own normals drawn at every step
b   one release, noise at every step: against the literal loop with normals of the same
    secure source: drawn by NumPy, a vector a step; and by Numba, one by one
c   one release, noise at epoch ends: against one full gradient A.T @ slope(A @ x) an
    epoch in NumPy; and the time of a step on short rows: alone, and in a release, which
    draws an order and noise for each epoch
d   growth with n: time per step, in runs of as many steps, and memory against the
    stated formula
e   the share of the secure source in the time of a release
"""

from __future__ import annotations

import argparse
import os
import platform
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from time import process_time
from typing import Any

import numba
import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dpbraid as db
from dpbraid.engine import costs, gaussian, kernels, noise, normals, run, slopes
from dpbraid.engine.blocked import Blocked
from dpbraid.engine.columns import Columns, Table

Array = NDArray[Any]
Ways = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Line:
    """One row of the printed table; `holds` is None for what is no claim."""

    claim: str
    what: str
    found: str
    claimed: str = ""
    holds: bool | None = None


@dataclass(frozen=True)
class Times:
    """Seconds of one way over the turns."""

    median: float
    least: float


def in_turns(ways: Ways, turns: int) -> dict[str, Times]:
    """Each way once for nothing, then all of them in turns, forwards and backwards."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for turn in range(turns):
        names = list(ways) if turn % 2 == 0 else list(ways)[::-1]
        for name in names:
            start = process_time()
            ways[name]()
            seconds[name].append(process_time() - start)
    return {
        name: Times(float(np.median(values)), min(values))
        for name, values in seconds.items()
    }


def quotient(times: dict[str, Times], top: str, bottom: str) -> tuple[float, str]:
    """Ratio of the medians, and how it prints with the ratio of the least times."""
    median = times[top].median / times[bottom].median
    least = times[top].least / times[bottom].least
    return median, f"{median:.4g}x (least {least:.4g}x)"


# -- baselines -------------------------------------------------------------------------


@numba.njit(error_model="numpy", fastmath=True)
def literal_own_normals(x, T, y, limits, rows, eta, scale):  # type: ignore[no-untyped-def]
    """One column of an epoch, logistic loss, clipped; Numba's own normals."""
    for r in rows:
        margin = x.dtype.type(0)
        for k in range(x.shape[0]):
            margin += T[r, k] * x[k]
        slope = -y[r] / (1 + np.exp(y[r] * margin))
        step = x.dtype.type(eta * min(max(slope, -limits[r]), limits[r]))
        for k in range(x.shape[0]):
            x[k] -= step * T[r, k] + scale * np.random.standard_normal()  # noqa: NPY002


@numba.njit(error_model="numpy", fastmath=True)
def literal_numba_normals(x, T, y, limits, rows, eta, scale, rng):  # type: ignore[no-untyped-def]
    """The same with normals of a NumPy Generator, drawn by compiled code."""
    for r in rows:
        margin = x.dtype.type(0)
        for k in range(x.shape[0]):
            margin += T[r, k] * x[k]
        slope = -y[r] / (1 + np.exp(y[r] * margin))
        step = x.dtype.type(eta * min(max(slope, -limits[r]), limits[r]))
        for k in range(x.shape[0]):
            x[k] -= step * T[r, k] + scale * rng.standard_normal()


@numba.njit(error_model="numpy", fastmath=True)
def literal_step(x, T, y, limits, r, eta, scale, rho):  # type: ignore[no-untyped-def]
    """One step of the same with normals that are given."""
    margin = x.dtype.type(0)
    for k in range(x.shape[0]):
        margin += T[r, k] * x[k]
    slope = -y[r] / (1 + np.exp(y[r] * margin))
    step = x.dtype.type(eta * min(max(slope, -limits[r]), limits[r]))
    for k in range(x.shape[0]):
        x[k] -= step * T[r, k] + scale * rho[k]


def literal_numpy_normals(
    x: Array,
    table: Table,
    rows: Array,
    eta: float,
    scale: float,
    rng: np.random.Generator,
) -> None:
    """The same with normals of a NumPy Generator, a vector a step."""
    rho = np.empty(len(x))
    for r in rows:
        rng.standard_normal(out=rho)
        literal_step(x, table.X, table.y, table.limits, r, eta, scale, rho)


# -- problems --------------------------------------------------------------------------

CLIP_NORM = 0.8


def problem(n: int, d: int) -> db.Rows:
    """Rows in all directions, labels at random."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), np.sign(rng.standard_normal(n))
    return db.Rows.bounded(X, y, row_norm=1.0)


def mechanism(n: int, epochs: int, placement: str, rate: float = 0.1) -> db.Mechanism:
    """Logistic regression on single rows, clipped and noisy."""
    return db.dp(
        n,
        epochs,
        loss=db.Logistic(),
        learning_rate=rate,
        noise_std=0.5,
        clip_norm=CLIP_NORM,
        row_norm=1.0,
        placement=placement,
    )


def table_of(rows: db.Rows, dtype: type[np.floating[Any]]) -> Table:
    """With labels and limits of the same precision, for the baselines."""
    table = Table.of(rows, db.Logistic(), CLIP_NORM, dtype)
    return replace(table, y=table.y.astype(dtype), limits=table.limits.astype(dtype))


# -- a ---------------------------------------------------------------------------------


def grid_ways(n: int, d: int, columns: int, dtype: type[np.floating[Any]]) -> Ways:
    rows = problem(n, d)
    table = Table.of(rows, db.Logistic(), CLIP_NORM, dtype)
    same = table_of(rows, dtype)
    runs = [mechanism(n, 1, "every_step", 0.01 * (1 + i)) for i in range(columns)]
    rates = [m.epochs[0].learning_rate for m in runs]
    streams, order = noise.seeded(0), np.random.default_rng(0)

    def literal() -> None:
        walk = order.permutation(n)
        for rate in rates:
            data = (same.X, same.y, same.limits, walk)
            x, scale = np.zeros(d, dtype), dtype(rate * 0.5)
            literal_own_normals(x, *data, dtype(rate), scale)

    def engine() -> None:
        X = np.zeros((d, columns), dtype)
        normals = noise.Gaussian(streams.noise)
        blocked = Blocked(Columns.of(runs), table, None, X, normals)
        for _ in blocked.epochs(streams.order):
            pass

    return {"literal": literal, "engine": engine}


def claim_a(tiny: bool, turns: int) -> list[Line]:
    n, d, columns = (60, 64, 4) if tiny else (1000, 3072, 36)
    lines = []
    for dtype, least in ((np.float32, 250), (np.float64, 120)):
        times = in_turns(grid_ways(n, d, columns, dtype), turns)
        ratio, text = quotient(times, "literal", "engine")
        milliseconds = 1e3 * times["engine"].median
        what = f"{columns} columns, {n} x {d}, {dtype.__name__}, {milliseconds:.1f} ms"
        lines.append(Line("a", what, text, f">= {least}x", ratio >= least))
    return lines


# -- b ---------------------------------------------------------------------------------


def claim_b(tiny: bool, turns: int) -> list[Line]:
    n, d, epochs = (60, 64, 2) if tiny else (1000, 3072, 50)
    rows, m = problem(n, d), mechanism(n, epochs, "every_step")
    table = table_of(rows, np.float64)
    data = (table.X, table.y, table.limits)

    def numba_normals() -> None:
        streams, x = noise.secure(), np.zeros(d)
        for _ in range(epochs):
            walk = streams.order.permutation(n)
            literal_numba_normals(x, *data, walk, 0.1, 0.05, streams.noise)

    def numpy_normals() -> None:
        streams, x = noise.secure(), np.zeros(d)
        for _ in range(epochs):
            walk = streams.order.permutation(n)
            literal_numpy_normals(x, table, walk, 0.1, 0.05, streams.noise)

    ways: Ways = {
        "engine": lambda: run(m, rows),
        "numba": numba_normals,
        "numpy": numpy_normals,
    }
    times = in_turns(ways, turns)
    milliseconds = 1e3 * times["engine"].median / epochs
    what = f"one release, {n} x {d}, float64, {milliseconds:.1f} ms an epoch"
    ratio, text = quotient(times, "numpy", "engine")
    strict, strict_text = quotient(times, "numba", "engine")
    return [
        Line("b", f"{what}; NumPy's normals", text, ">= 8x", ratio >= 8),
        Line("b", f"{what}; Numba's normals", strict_text, ">= 8x", strict >= 8),
    ]


# -- c ---------------------------------------------------------------------------------


def full_gradient(rows: db.Rows) -> Callable[[], Array]:
    A, y, x = rows.X, rows.y, np.zeros(rows.dimension)
    assert y is not None

    def gradient() -> Array:
        slopes = -y / (1 + np.exp(y * (A @ x)))
        return A.T @ slopes

    return gradient


def claim_c(tiny: bool, turns: int) -> list[Line]:
    shapes = [(50, 500)] if tiny else [(1000, 500), (10_000, 500), (1000, 3072)]
    lines = []
    for n, d in shapes:
        epochs = 2 if tiny else 50
        rows, m = problem(n, d), mechanism(n, epochs, "epoch_end", 1e-3)
        gradient = full_gradient(rows)

        def gradients(gradient: Any = gradient, epochs: int = epochs) -> None:
            for _ in range(epochs):
                gradient()

        def release(m: db.Mechanism = m, rows: db.Rows = rows) -> None:
            run(m, rows)

        times = in_turns({"engine": release, "gradient": gradients}, turns)
        ratio, text = quotient(times, "engine", "gradient")
        what = f"an epoch of a release against a gradient, {n} x {d}"
        lines.append(Line("c", what, text, "<= 1.5x", ratio <= 1.5))
    n, d, epochs = (50, 11, 2) if tiny else (2103, 11, 400)
    rows, m = problem(n, d), mechanism(n, epochs, "epoch_end", 1e-3)
    table = Table.of(rows, db.Logistic(), CLIP_NORM, np.float64)
    walk = np.random.default_rng(0).permutation(n)
    address, x = slopes.address(db.Logistic()), np.zeros(d)
    data = (table.X, table.y, table.limits, walk)

    def steps() -> None:
        for _ in range(epochs):
            kernels.quiet_steps_one(x, *data, 1e-3, address, 0.0)

    times = in_turns({"release": lambda: run(m, rows), "steps": steps}, turns)
    for name, what in (("steps", "a step alone"), ("release", "a step of a release")):
        each = 1e9 * times[name].median / (n * epochs)
        text = f"{each:.1f} ns"
        lines.append(Line("c", f"{what}, {n} x {d}", text, "<= 25 ns", each <= 25))
    return lines


# -- d ---------------------------------------------------------------------------------


def claim_d(tiny: bool, turns: int) -> list[Line]:
    sizes, d = ((50, 100) if tiny else (1000, 10_000, 100_000)), 100
    lines = []
    for placement in ("every_step", "epoch_end"):
        ways: Ways = {}
        epochs = {n: 10 * sizes[-1] // n for n in sizes}
        for n in sizes:
            rows, m = problem(n, d), mechanism(n, epochs[n], placement, 1e-3)
            ways[str(n)] = lambda m=m, rows=rows: run(m, rows)  # type: ignore[misc]
        times = in_turns(ways, turns)
        each = [1e9 * times[str(n)].median / (n * epochs[n]) for n in sizes]
        growth = max(each) / min(each)
        text = ", ".join(f"{nanoseconds:.0f}" for nanoseconds in each)
        what = f"ns a step at n = {', '.join(map(str, sizes))}, d={d}, {placement}"
        found = f"{text}: {growth:.2f}x"
        lines.append(Line("d", what, found, "<= 1.5x", growth <= 1.5))
        for n in sizes:
            rows, m = problem(n, d), mechanism(n, 1, placement, 1e-3)
            tracemalloc.start()
            run(m, rows)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            bytes_ = costs.memory_bytes(n, d, 1)
            text, claimed = f"{peak / 1e6:.2f} MB", f"<= {bytes_ / 1e6:.2f} MB"
            what = f"memory beside the table, n={n}, {placement}"
            lines.append(Line("d", what, text, claimed, peak <= bytes_))
    return lines


# -- e ---------------------------------------------------------------------------------


CELLS = Fraction(3, 2) * 2**30


def end_draws(n: int, d: int, epochs: int) -> Callable[[], None]:
    """The draws of a release with noise at epoch ends: orders and rounded normals."""

    def draws() -> None:
        streams = noise.secure()
        for _ in range(epochs):
            streams.order.permutation(n)
            gaussian.draw(streams.noise, d, CELLS)

    return draws


def step_draws(n: int, d: int, epochs: int) -> Callable[[], None]:
    """The draws of a release with noise at every step: in blocks, as in the engine.

    Eight blocks a call, for Python's share to be small; they stay in the cache.
    """
    size = costs.block_rows(costs.Shape(d, 1, 1, True, 8)) or 1
    blocks = -(-n // size)
    W, z = np.empty(8 * d), np.empty(n)

    def draws() -> None:
        streams = noise.secure()
        source = normals.Words.of(streams.noise).source
        for _ in range(epochs):
            streams.order.permutation(n)
            for first in range(0, blocks, 8):
                normals.fill(source, size**0.5, W[: (blocks - first) * d])
            normals.fill(source, 1.0, z)

    return draws


def claim_e(tiny: bool, turns: int) -> list[Line]:
    """The draws of a release by themselves, against the release."""
    lines = []
    shapes = [
        (1000, 3072, "every_step", 0.30),
        (1000, 3072, "epoch_end", 0.25),
        (10_000, 500, "epoch_end", 0.03),
    ]
    for n, d, placement, most in shapes:
        if tiny:
            n, d = 60, 64
        epochs = 2 if tiny else 100_000 // n
        rows, m = problem(n, d), mechanism(n, epochs, placement, 1e-3)
        if placement == "epoch_end":
            draws = end_draws(n, d, epochs)
        else:
            draws = step_draws(n, d, epochs)

        def release(m: db.Mechanism = m, rows: db.Rows = rows) -> None:
            run(m, rows)

        times = in_turns({"draws": draws, "release": release}, turns)
        share = times["draws"].median / times["release"].median
        least = times["draws"].least / times["release"].least
        text = f"{100 * share:.1f} % (least {100 * least:.1f} %)"
        what = f"secure source, {n} x {d}, {placement}"
        lines.append(Line("e", what, text, f"<= {100 * most:.0f} %", share <= most))
    return lines


CLAIMS = {"a": claim_a, "b": claim_b, "c": claim_c, "d": claim_d, "e": claim_e}


# -- printing --------------------------------------------------------------------------


def machine() -> str:
    """What the figures were measured on."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            models = [line.split(":")[1] for line in lines if "model name" in line]
        name = models[0].strip()
    except (OSError, IndexError):
        pass
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return (
        f"{name}, {os.cpu_count()} cores (one used), {platform.system()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, Numba {numba.__version__}, load {load:.1f}"
    )


def show(lines: list[Line]) -> None:
    from rich.console import Console
    from rich.table import Table as Printed

    printed = Printed("claim", "what", "measured", "claimed", "holds", title=machine())
    for line in lines:
        holds = {None: "", True: "yes", False: "NO"}[line.holds]
        printed.add_row(line.claim, line.what, line.found, line.claimed, holds)
    Console(width=None if os.isatty(1) else 140).print(printed)


def main(arguments: list[str] | None = None) -> list[Line]:
    """Measure and print; the lines, for a test."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default=",".join(CLAIMS), help="such as a,c")
    parser.add_argument("--turns", type=int, default=9, help="turns of each pair")
    parser.add_argument("--tiny", action="store_true", help="small sizes")
    options = parser.parse_args(arguments)
    if unknown := set(options.only.split(",")) - set(CLAIMS):
        parser.error(f"--only takes {', '.join(CLAIMS)}, got {', '.join(unknown)}")
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if cores:
        os.sched_setaffinity(0, {max(cores)})
    try:
        with threadpool_limits(1):
            lines = [
                line
                for claim in options.only.split(",")
                for line in CLAIMS[claim](options.tiny, options.turns)
            ]
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
    if options.tiny:  # says nothing about the claims
        lines = [replace(line, holds=None) for line in lines]
    show(lines)
    return lines


if __name__ == "__main__":
    main()
