"""How long audits take and how much they see.

    python benchmarks/audit.py             a minute or two
    python benchmarks/audit.py --tiny      small sizes, for a look at whether it runs

a   the default audit (1000 runs a side) of a logistic model fitted on n = 2103 rows of
    d = 11 columns (10 and the intercept), all settings left at their defaults
b   lower bound over claim, in mu, where theory says that the claim is tight: linear
    losses with noise at epoch ends, against the number of runs
c   one run with as many canaries as rows and columns
"""

from __future__ import annotations

import argparse
import os
import platform
from time import perf_counter, process_time

import numpy as np

import dpbraid as db
from dpbraid.audit import audit, one_run
from dpbraid.estimators import PrivateLogisticRegression


def fitted(n: int, epsilon: float) -> PrivateLogisticRegression:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10))
    y = X[:, 0] + rng.standard_normal(n) > 0
    model = PrivateLogisticRegression(epsilon=epsilon, row_norm=3.0, classes=[0, 1])
    model.fit(X, y)
    return model


def linear(n: int, epochs: int, noise_std: float) -> db.Mechanism:
    return db.dp(
        n,
        epochs,
        loss=db.Squared(),
        clip_norm=1.0,
        row_norm=1.0,
        learning_rate=0.1,
        noise_std=noise_std,
        placement="epoch_end",
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    tiny = parser.parse_args(arguments).tiny
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    n, runs = (50, 20) if tiny else (2103, 1000)
    for epsilon in (1.0,) if tiny else (1.0, 4.0):
        model = fitted(n, epsilon)
        audit(model.certificate_, runs=2)  # compiles
        began, busy = perf_counter(), process_time()
        found = audit(model.certificate_, runs=runs)
        print(
            f"a  n={n}, d=11, epsilon {epsilon:g}, {len(model.mechanism_.epochs)} "
            f"epochs, {runs} runs a side: {perf_counter() - began:.1f} s, "
            f"{process_time() - busy:.1f} s of processors, ratio in mu "
            f"{found.ratio:.3f}, {'holds' if found.holds else 'REFUTED'}"
        )
    for runs in (100,) if tiny else (1000, 10_000, 30_000):
        began = perf_counter()
        found = audit(linear(4, 3, 2 / 3**0.5), analysis="epoch_end", runs=runs)
        print(
            f"b  claimed mu {found.claimed_mu:.3f}, {runs} runs a side: mu >= "
            f"{found.evidence.mu:.3f}, ratio {found.ratio:.3f}, "
            f"{perf_counter() - began:.1f} s"
        )
    size = 100 if tiny else 1000
    for noise_std in (2.0, 1.0, 0.5):
        once = one_run(linear(size, 4, noise_std), dimension=size, analysis="epoch_end")
        print(
            f"c  {once.canaries} canaries, {once.correct} of {once.guesses} right: "
            f"epsilon {once.epsilon:.2f} of {once.claim.epsilon:.2f} claimed"
        )


if __name__ == "__main__":
    main()
