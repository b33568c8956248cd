"""Do the proved rates appear? Excess risk against n and epsilon, measured.

    python docs/figures/theory_rates.py [--quick]

writes theory_rates.png and theory_rates.json beside itself and prints the table of
docs/theory.md 4.4. The family: rows
a_i = (+-s_1, .., +-s_d) with s_j = 2^-j and Huber loss without label noise, so the
Hessian of F has one eigenvalue 4^-j per coordinate: whatever learning rate and number
of epochs a run uses, some coordinate has the curvature that is worst for it. Fixed
curvature above 0 would hide the rate of the convex class behind a faster one. Learning
rate times K, and noise, are those of the proved table; each replicate draws its own
rows, orders and noise. Slopes are least squares on logs, bands and intervals are
bootstrap over replicates.

The proved slope comes twice: of the leading terms, and of the same with the factor
1 + log K that the theorem has on its noise term and the rate drops.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

from dpbraid.mechanism import Placement
from dpbraid.theory.excess_risk import Analysis, Row, Schedule, Setting, proved_table

Array = NDArray[np.float64]

DIMENSION = 8
SCALES = 2.0 ** -np.arange(DIMENSION)
ROW_NORM = float(np.linalg.norm(SCALES))
DELTA = 1e-5
# the table's K keeps the proof's geometric sum below 2; a run needs far fewer epochs
EPOCH_SHARE = 0.2
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Series:
    """One curve: a schedule with a placement, n or epsilon varied."""

    name: str
    schedule: Schedule
    placement: Placement
    against: str
    values: tuple[float, ...]
    fixed: float

    def setting(self, value: float) -> Setting:
        """The public facts at one point of the curve."""
        n = int(value) if self.against == "n" else int(self.fixed)
        epsilon = self.fixed if self.against == "n" else value
        return Setting(
            n=n,
            dimension=DIMENSION,
            epsilon=epsilon,
            delta=DELTA,
            private_fraction=0.5 if self.schedule is Schedule.INTERLEAVED else 1.0,
            lipschitz=ROW_NORM,
            smoothness=ROW_NORM**2,
            distance=1.0,
            gradient_std=0.0,
        )


@numba.njit
def _run(A, y, P, py, n_d, K, eta, sigma, at_end, transition, rng):  # type: ignore[no-untyped-def]
    """Last iterate of Algorithm 1 with a fresh order per epoch, from 0."""
    n, d = A.shape
    x = np.zeros(d)
    for _ in range(K):
        order = rng.permutation(n)
        for t in range(n):
            if t < n_d:
                row, label = A[order[t]], y[order[t]]
            else:
                row, label = P[t - n_d], py[t - n_d]
            slope = -label
            for j in range(d):
                slope += row[j] * x[j]
            slope = min(max(slope, -transition), transition)
            noisy = (not at_end) or t == n_d - 1
            for j in range(d):
                x[j] -= eta * slope * row[j]
                if noisy:
                    x[j] -= eta * sigma * rng.standard_normal()
    return x


def measure(setting: Setting, row: Row, replicates: int, seed: int) -> Array:
    """Excess risk of `replicates` runs of the table's row."""
    rng = np.random.default_rng(seed)
    n = setting.n
    optimum = np.full(DIMENSION, 1 / math.sqrt(DIMENSION))
    share = setting.private_fraction if row.schedule is Schedule.INTERLEAVED else 1.0
    n_d = round(share * n)
    at_end = row.placement is Placement.EPOCH_END
    excess = []
    for _ in range(replicates):
        A, P = rng.choice([-1.0, 1.0], (2, n, DIMENSION)) * SCALES
        x = _run(
            A, A @ optimum, P, P @ optimum, n_d,
            row.epochs, row.learning_rate, row.noise_std, at_end, 1.0, rng,
        )  # fmt: skip
        r = np.abs(A @ (x - optimum))
        inner = np.minimum(r, 1.0)
        excess.append(float(np.mean(inner * (r - 0.5 * inner))))
    return np.array(excess)


def table_row(setting: Setting, schedule: Schedule, placement: Placement) -> Row:
    """The proved table's row for one schedule, with EPOCH_SHARE of its epochs.

    The privacy term depends on eta K and on noise_std^2/K alone; these are kept.
    """
    rows = proved_table(setting, placement, Analysis.COMPOSITION)
    row = next(row for row in rows if row.schedule is schedule)
    K = max(2, round(row.epochs * EPOCH_SHARE))
    return replace(
        row,
        epochs=K,
        learning_rate=row.learning_rate * row.epochs / K,
        noise_std=row.noise_std * math.sqrt(K / row.epochs),
    )


def slope(
    x: Array, samples: list[Array], rng: np.random.Generator
) -> tuple[float, ...]:
    """Slope of log mean against log x, and its 95 % bootstrap interval."""

    draws = [
        log_slope(x, [rng.choice(s, len(s)).mean() for s in samples])
        for _ in range(400)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    return log_slope(x, [s.mean() for s in samples]), float(low), float(high)


def run_series(series: Series, replicates: int, seed: int = 0) -> dict[str, Any]:
    """Measure one curve and compare slopes."""
    samples, leading, with_log = [], [], []
    for k, value in enumerate(series.values):
        setting = series.setting(value)
        row = table_row(setting, series.schedule, series.placement)
        samples.append(measure(setting, row, replicates, 1000 * seed + k))
        # initialisation and noise are half of it each
        leading.append(row.privacy)
        with_log.append(row.privacy / 2 * (1 + 1 + math.log(row.epochs)))
    x = np.array(series.values)
    rng = np.random.default_rng(seed)
    fitted = slope(x, samples, rng)
    bands = [
        np.quantile([rng.choice(s, len(s)).mean() for _ in range(400)], [0.025, 0.975])
        for s in samples
    ]
    return {
        **asdict(series),
        "means": [float(s.mean()) for s in samples],
        "low": [float(b[0]) for b in bands],
        "high": [float(b[1]) for b in bands],
        "leading_term": leading,
        "slope": fitted[0],
        "slope_low": fitted[1],
        "slope_high": fitted[2],
        "slope_proved": log_slope(x, leading),
        "slope_proved_with_log": log_slope(x, with_log),
        "slope_paper": 4 / 3 * log_slope(x, leading),
    }


def log_slope(x: Array, y: Sequence[float] | Array) -> float:
    """Slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def all_series(quick: bool) -> list[Series]:
    """dp at every step and at the epoch end, and interleaved, against n and epsilon."""
    cut = 3 if quick else 5
    step, end = Placement.EVERY_STEP, Placement.EPOCH_END
    return [
        Series("dp, every step", Schedule.DP, step, "n",
               (1000.0, 2000.0, 4000.0, 8000.0, 16000.0)[:cut], 16.0),
        Series("dp, epoch end", Schedule.DP, end, "n",
               (250.0, 500.0, 1000.0, 2000.0, 4000.0)[:cut], 2.0),
        Series("interleaved, every step", Schedule.INTERLEAVED, step, "n",
               (250.0, 500.0, 1000.0, 2000.0, 4000.0)[:cut], 2.0),
        Series("dp, every step", Schedule.DP, step, "epsilon",
               (4.0, 8.0, 16.0, 32.0)[:cut], 4000.0),
        Series("dp, epoch end", Schedule.DP, end, "epsilon",
               (0.5, 1.0, 2.0, 4.0)[:cut], 1000.0),
        Series("interleaved, every step", Schedule.INTERLEAVED, step, "epsilon",
               (0.5, 1.0, 2.0, 4.0)[:cut], 1000.0),
    ]  # fmt: skip


def draw(results: list[dict[str, Any]]) -> Figure:
    """Measured means with bands; proved slopes and the paper's from the first point."""
    figure = Figure(figsize=(11, 6.6), layout="constrained")
    rows = figure.subplots(2, 3)
    lines = (
        ("slope_proved", "--", "#000000", "proved rate"),
        ("slope_proved_with_log", "-.", "#7F7F7F", "the same with 1 + log K"),
        ("slope_paper", ":", "#D55E00", "paper's rate"),
    )
    for panels, against in zip(rows, ("n", "epsilon"), strict=True):
        chosen = [r for r in results if r["against"] == against]
        for panel, result in zip(panels, chosen, strict=True):
            x = np.array(result["values"])
            means = np.array(result["means"])
            band = f"[{result['slope_low']:.2f}, {result['slope_high']:.2f}]"
            panel.loglog(
                x, means, "o-", color="#0072B2", markersize=4,
                label=f"measured {result['slope']:.2f} {band}",
            )  # fmt: skip
            panel.fill_between(
                x, result["low"], result["high"], color="#0072B2", alpha=0.25
            )
            for key, style, colour, name in lines:
                line = means[0] * (x / x[0]) ** result[key]
                label = f"{name} {result[key]:.2f}"
                panel.loglog(x, line, style, color=colour, linewidth=1.2, label=label)
            panel.set_title(result["name"], fontsize=10)
            if against == "n":
                panel.set_xlabel(f"private rows n (epsilon = {result['fixed']:g})")
            else:
                panel.set_xlabel(f"epsilon (n = {result['fixed']:g})")
            panel.set_xticks(x, labels=[f"{value:g}" for value in x])
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.legend(fontsize=7.5, frameon=False, loc="lower left")
            panel.spines[["top", "right"]].set_visible(False)
            panel.grid(alpha=0.25)
        panels[0].set_ylabel("mean excess risk G(x) - G(x*)")
    figure.suptitle(
        "Slopes on logarithmic axes; shaded: 95 % band of the mean, in brackets: 95 % "
        "interval of the slope",
        fontsize=10,
    )
    return figure


def markdown(results: list[dict[str, Any]]) -> str:
    """The table of docs/theory.md 4.4."""
    lines = [
        "| noise and schedule | against | measured, 95 % interval | proved | with log "
        "| paper |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['name']} | {r['against']} | {r['slope']:.2f} "
        f"[{r['slope_low']:.2f}, {r['slope_high']:.2f}] | {r['slope_proved']:.2f} | "
        f"{r['slope_proved_with_log']:.2f} | {r['slope_paper']:.2f} |"
        for r in results
    ]
    return "\n".join(lines)


def main() -> None:
    """Run everything, write the numbers and the picture, print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    replicates = 40 if quick else 200
    results = [run_series(series, replicates) for series in all_series(quick)]
    (HERE / "theory_rates.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(results).savefig(HERE / "theory_rates.png", dpi=110)
    print(markdown(results))


if __name__ == "__main__":
    main()
