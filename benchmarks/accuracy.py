"""Accuracy of the estimators' defaults on the embedded tasks.

    python benchmarks/accuracy.py [--tasks crime,compas] [--seeds 10]
        [--diffprivlib /path/to/a/python/with/diffprivlib]

Prints, for each task and epsilon (delta = 1e-6, replace one row), the excess objective
G(x; D) - G* on all private rows, and a held-out metric where there are labels: each
seed holds out a fifth of the private rows, fits on the rest, and scores accuracy or R^2
on the fifth. Nothing is tuned; every method gets the same guarantee.

Methods: the estimators' defaults without and with public rows, and with the start at
the public solution; DP-GD (50 full batches at 1/L, clipped at the loss's gradient
bound); output perturbation (Wu et al. 2017: 10 passes at rate min(1/sqrt(n), 1/L), one
noise); diffprivlib in its own environment, with a pure epsilon guarantee and its own
regulariser (the same weight, l2; on cifar10 a fit takes it minutes); and what costs no
privacy: zero, the public solution, the optimum.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import dpbraid as db
from dpbraid.engine import run
from dpbraid.engine.objective import objective
from dpbraid.estimators import (
    PrivateLogisticRegression,
    PrivateMean,
    PrivateRidge,
)
from dpbraid.paper import tasks
from dpbraid.paper.optimum import solve
from dpbraid.paper.options import (
    CompasOptions,
    CreditCardOptions,
    CrimeOptions,
    TaskOptions,
)
from dpbraid.paper.tasks import Task
from dpbraid.privacy import calibrate, gaussian_mu
from dpbraid.rows import Rows

DELTA = 1e-6
CHILD = Path(__file__).with_name("accuracy_diffprivlib.py")

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Case:
    """A task with the bounds that anybody knows who has not seen its rows.

    always: whether these bounds hold by the meaning of the features (pixels and rates
    lie in [0, 1]), so that they are used beside public rows too; standardised rows
    have root mean square norm sqrt(d), and where there are public rows these say more.
    """

    task: str
    options: TaskOptions | None
    epsilons: tuple[float, ...]
    row_norm: float
    label_bound: float | None
    always: bool


CASES = {
    "mnist69": Case("mnist69", None, (5, 10), 10.0, None, False),
    "compas": Case("compas", None, (5, 10), math.sqrt(11), None, False),
    "compas-0.001": Case(
        "compas", CompasOptions(lasso=0.001), (5, 10), math.sqrt(11), None, False
    ),
    "creditcard": Case("creditcard", None, (5, 10), math.sqrt(21), None, False),
    "creditcard-0.001": Case(
        "creditcard",
        CreditCardOptions(lasso=0.001),
        (5, 10),
        math.sqrt(21),
        None,
        False,
    ),
    "crime": Case("crime", None, (1, 5), math.sqrt(124) * 56, 1.0, True),
    "crime-122": Case(
        "crime",
        CrimeOptions(columns="predictive"),  # type: ignore[arg-type]
        (1, 5),
        math.sqrt(122),
        1.0,
        True,
    ),
    "crime-122-clean": Case(
        "crime",
        CrimeOptions(columns="predictive", rotation="none"),  # type: ignore[arg-type]
        (1, 5),
        math.sqrt(122),
        1.0,
        True,
    ),
    "cifar10": Case("cifar10", None, (1, 5), math.sqrt(3072), 9.0, True),
}

Fit = Callable[[Rows, float, int], Array]


def methods(case: Case, task: Task) -> dict[str, Fit]:
    """Name -> (private rows, epsilon, seed) -> x."""
    public, solution = task.public, _solved(task, task.public)

    def own(rows: Rows, epsilon: float, seed: int, **options: Any) -> Array:
        with_public = options.pop("public", True)
        common: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": DELTA,
            "random_state": seed,
            **options,
        }
        if case.always or not with_public:
            common["row_norm"] = case.row_norm
        X_public = public.X if with_public else None
        n = len(rows)
        if isinstance(task.loss, db.Mean):
            return PrivateMean(**common).fit(rows.X, X_public=X_public).mean_
        y_public = public.y if with_public else None
        if isinstance(task.loss, db.Squared):
            assert isinstance(task.penalty, db.Ridge)
            ridge = PrivateRidge(
                alpha=task.penalty.weight * n / 2,
                label_bound=case.label_bound,
                fit_intercept=False,
                **common,
            )
            return ridge.fit(rows.X, rows.y, X_public, y_public).coef_
        assert isinstance(task.penalty, db.Lasso)
        logistic = PrivateLogisticRegression(
            penalty="l1",
            C=1 / (task.penalty.weight * n),
            classes=[-1.0, 1.0],
            fit_intercept=False,
            **common,
        )
        return logistic.fit(rows.X, rows.y, X_public, y_public).coef_[0]

    found: dict[str, Fit] = {
        "zero vector": lambda rows, epsilon, seed: np.zeros(task.dimension),
        "public solution": lambda rows, epsilon, seed: solution,
        "dpbraid, no public rows": lambda rows, epsilon, seed: own(
            rows, epsilon, seed, public=False
        ),
        "dpbraid, public rows": own,
        "dpbraid, public start": lambda rows, epsilon, seed: own(
            rows, epsilon, seed, start="public"
        ),
        "DP-GD": lambda *a: _dp_gd(case, task, *a),
        "output perturbation": lambda *a: _output_perturbation(case, task, *a),
        "optimum": lambda rows, epsilon, seed: _solved(task, rows),
    }
    if isinstance(task.loss, db.Mean):  # its default is the public start already
        del found["dpbraid, public start"]
    return found


def _solved(task: Task, rows: Rows) -> Array:
    return solve(task.loss, task.penalty, rows, tolerance=1e-7).x


def _gradient_bound(case: Case, task: Task) -> float:
    """The largest gradient at 0 for a squared loss, the Lipschitz constant else."""
    if isinstance(task.loss, db.Mean):
        return case.row_norm
    natural = task.loss.lipschitz(case.row_norm)
    if natural is not None:
        return natural
    assert case.label_bound is not None
    return 2 * case.row_norm * case.label_bound


def _bounded(case: Case, rows: Rows) -> Rows:
    return Rows.bounded(
        rows.X, rows.y, row_norm=case.row_norm, label_bound=case.label_bound
    )


def _dp_gd(case: Case, task: Task, rows: Rows, epsilon: float, seed: int) -> Array:
    n = len(rows)
    raw = db.dp(
        n,
        50,
        learning_rate=1 / task.loss.smoothness(case.row_norm),
        batch_size=n,
        placement="epoch_end",
        loss=task.loss,
        penalty=task.penalty,
        clip_norm=_gradient_bound(case, task),
        row_norm=case.row_norm,
    )
    mechanism = calibrate(raw, epsilon=epsilon, delta=DELTA)
    return run(mechanism, _bounded(case, rows), seed=seed).x


def _output_perturbation(
    case: Case, task: Task, rows: Rows, epsilon: float, seed: int
) -> Array:
    n, passes = len(rows), 10
    rate = min(1 / math.sqrt(n), 1 / task.loss.smoothness(case.row_norm))
    bound = _gradient_bound(case, task)
    quiet = db.nonprivate(
        n,
        passes,
        learning_rate=rate,
        loss=task.loss,
        penalty=task.penalty,
        clip_norm=bound,
        row_norm=case.row_norm,
    )
    x = run(quiet, _bounded(case, rows), seed=seed).x
    std = 2 * rate * bound * passes / gaussian_mu(epsilon, DELTA)
    rng = np.random.default_rng([seed, 1])
    return x + std * rng.standard_normal(len(x))


def held_out(task: Task, seed: int) -> tuple[Rows, Rows]:
    """Four fifths of the private rows, and the rest."""
    rows = task.private
    order = np.random.default_rng([seed, 2]).permutation(len(rows))
    cut = len(rows) // 5
    parts = []
    for part in (order[cut:], order[:cut]):
        y = None if rows.y is None else rows.y[part]
        parts.append(replace(rows, X=np.ascontiguousarray(rows.X[part]), y=y))
    return parts[0], parts[1]


def score(task: Task, x: Array, rows: Rows) -> float:
    """Accuracy of a classifier, R^2 of a regression."""
    assert rows.y is not None
    margins = rows.X @ x
    if isinstance(task.loss, db.Logistic):
        return float(np.mean(np.where(margins > 0, 1.0, -1.0) == rows.y))
    return 1 - float(
        np.sum((margins - rows.y) ** 2) / np.sum((rows.y - rows.y.mean()) ** 2)
    )


def diffprivlib(
    python: str, case: Case, task: Task, epsilon: float, seeds: int
) -> list[tuple[Array, Array | None]]:
    """(x on all rows, x without the held-out fifth) for each seed."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        arrays: dict[str, Any] = {}
        for seed in range(seeds):
            parts = {"all": task.private}
            if task.private.y is not None:
                parts["part"] = held_out(task, seed)[0]
            for name, rows in parts.items():
                arrays[f"X_{name}_{seed}"] = rows.X
                if rows.y is not None:
                    arrays[f"y_{name}_{seed}"] = rows.y
        weight = getattr(task.penalty, "weight", 0.0)
        facts = {
            "kind": task.loss.kind,
            "epsilon": epsilon,
            "row_norm": case.row_norm,
            "label_bound": case.label_bound,
            "weight": weight,
            "seeds": seeds,
        }
        np.savez(source, facts=json.dumps(facts), **arrays)
        subprocess.run([python, str(CHILD), str(source), str(target)], check=True)
        with np.load(target) as found:
            return [
                (
                    found[f"all_{seed}"],
                    found.get(f"part_{seed}"),
                )
                for seed in range(seeds)
            ]


def table(name: str, seeds: int, python: str | None) -> Iterator[str]:
    """The lines of one task."""
    case = CASES[name]
    task = tasks.load(case.task, case.options)
    best = objective(task.loss, task.penalty, _solved(task, task.private), task.private)
    labels = task.private.y is not None
    metric = "accuracy" if isinstance(task.loss, db.Logistic) else "R^2"
    head = f"{name}: n = {task.n}, d = {task.dimension}, G* = {best:.6g}"
    yield f"\n{head}"
    for epsilon in case.epsilons:
        rows = f" {'held-out ' + metric:>20}" if labels else ""
        yield f"  {f'epsilon {epsilon:g}':<26} {'excess':>10} {'std':>9}{rows}"
        results: dict[str, tuple[list[float], list[float]]] = {}
        for label, fit in methods(case, task).items():
            excess, scores = [], []
            for seed in range(seeds):
                x = fit(task.private, epsilon, seed)
                excess.append(_excess(task, x, best))
                if labels:
                    part, rest = held_out(task, seed)
                    scores.append(score(task, fit(part, epsilon, seed), rest))
            results[label] = (excess, scores)
        if python is not None:
            excess, scores = [], []
            try:
                fitted = diffprivlib(python, case, task, epsilon, seeds)
            except subprocess.CalledProcessError:
                fitted = []
            for seed, (x, part_x) in enumerate(fitted):
                excess.append(_excess(task, x, best))
                if part_x is not None:
                    scores.append(score(task, part_x, held_out(task, seed)[1]))
            results["diffprivlib"] = (excess, scores)
        for label, (excess, scores) in results.items():
            if not excess:
                yield f"  {label:<26} {'cannot':>10}"
                continue
            line = f"  {label:<26} {np.mean(excess):10.3g} {np.std(excess):9.2g}"
            yield line + (f" {np.mean(scores):20.3f}" if scores else "")


def _excess(task: Task, x: Array, best: float) -> float:
    if isinstance(task.penalty, db.Ball):
        x = task.penalty.prox(x, 1.0)
    return objective(task.loss, task.penalty, x, task.private) - best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(CASES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--diffprivlib", metavar="PYTHON", default=None)
    options = parser.parse_args()
    for name in options.tasks.split(","):
        for line in table(name, options.seeds, options.diffprivlib):
            print(line, flush=True)


if __name__ == "__main__":
    main()
