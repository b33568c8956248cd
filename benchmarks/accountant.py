"""The accountant's speed: how long each kind of calibration takes, and the import.

    python benchmarks/accountant.py            all claims, half a minute
    python benchmarks/accountant.py --only a,b
    python benchmarks/accountant.py --tiny     small sizes, to see that it runs

Wall time of one core, the median over the turns, nothing kept from one to the next. For
figures worth quoting let the machine do nothing else.

a   closed forms, a calibration at n = 1000, K = 50
b   hidden_state over 5 10^7 steps: many rows, or many epochs
c   secret_order at n = 1000, K = 50: both orders and placements, all rows and half
d   the same at n = 10^6, K = 100, and its memory
e   the import of dpbraid.privacy in a fresh interpreter
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

import dpbraid as db
from dpbraid.orders import Order
from dpbraid.privacy import participation

INCREMENTAL = db.Incremental()


@dataclass(frozen=True)
class Line:
    """One row of the printed table; `holds` is None where sizes are tiny."""

    claim: str
    what: str
    found: str
    claimed: str
    holds: bool | None


def forget() -> None:
    """Nothing is kept of the laws that were computed before."""
    participation._block_law.cache_clear()
    participation._every_step.cache_clear()


def seconds(work: Callable[[], object], turns: int) -> float:
    found = []
    for _ in range(turns):
        forget()
        start = perf_counter()
        work()
        found.append(perf_counter() - start)
    return median(found)


def calibration(
    n: int,
    epochs: int,
    analysis: str,
    *,
    share: float = 1.0,
    placement: str = "every_step",
    order: Order = INCREMENTAL,
) -> Callable[[], object]:
    mechanism = db.interleaved(
        n,
        epochs,
        private_fraction=share,
        learning_rate=0.1,
        placement=placement,
        order=order,
        clip_norm=10.0,
        row_norm=1.0,
        loss=db.Logistic(),
    )
    return lambda: db.calibrate(mechanism, epsilon=1, delta=1e-6, analysis=analysis)


def timed(
    claim: str, what: str, work: Callable[[], object], limit: float, turns: int
) -> Line:
    found = seconds(work, turns)
    shown = f"{1000 * found:.3g} ms", f"< {1000 * limit:g} ms"
    return Line(claim, what, *shown, found < limit)


def closed_forms(tiny: bool, turns: int) -> Iterator[Line]:
    for analysis in ("paper", "composition", "hidden_state", "epoch_end"):
        placement = "epoch_end" if analysis == "epoch_end" else "every_step"
        work = calibration(1000, 50, analysis, placement=placement)
        yield timed("a", analysis, work, 5e-3, turns)


def many_steps(tiny: bool, turns: int) -> Iterator[Line]:
    for n, epochs in ((10**6, 50), (10**3, 50 if tiny else 50_000)):
        work = calibration(n, epochs, "hidden_state")
        what = f"hidden_state, n = {n}, K = {epochs}"
        yield timed("b", what, work, 50e-3, turns)


def secret_orders(
    claim: str, n: int, epochs: int, limit: float, turns: int
) -> Iterator[tuple[Line, Callable[[], object]]]:
    for order in (db.ShuffleOnce(), db.Reshuffle()):
        for placement in db.Placement:
            for share in (1.0, 0.5):
                work = calibration(
                    n,
                    epochs,
                    "secret_order",
                    share=share,
                    placement=placement,
                    order=order,
                )
                what = f"{order.kind}, {placement.value}, n_d = {share * n:g} of {n}"
                yield timed(claim, what, work, limit, turns), work


def few_rows(tiny: bool, turns: int) -> Iterator[Line]:
    for line, _ in secret_orders("c", 40 if tiny else 1000, 50, 1.0, turns):
        yield line


def many_rows(tiny: bool, turns: int) -> Iterator[Line]:
    n, epochs = (100, 5) if tiny else (10**6, 100)
    peak = 0
    for line, work in secret_orders("d", n, epochs, 10.0, min(turns, 3)):
        yield line
        forget()
        tracemalloc.start()
        work()
        peak = max(peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    found = f"{peak / 2**20:.0f} MiB"
    yield Line(
        "d", "memory beside the program, at most", found, "< 1 GiB", peak < 2**30
    )


def fresh_import(tiny: bool, turns: int) -> Iterator[Line]:
    program = (
        "from time import perf_counter; start = perf_counter(); "
        "import dpbraid.privacy; print(perf_counter() - start)"
    )

    def once() -> float:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    found = median(once() for _ in range(turns))
    shown = f"{1000 * found:.3g} ms"
    yield Line("e", "import dpbraid.privacy", shown, "< 300 ms", found < 0.3)


CLAIMS = {
    "a": closed_forms,
    "b": many_steps,
    "c": few_rows,
    "d": many_rows,
    "e": fresh_import,
}


def show(lines: list[Line]) -> None:
    from rich.console import Console
    from rich.table import Table

    machine = f"{platform.processor() or platform.machine()}, {platform.system()}"
    title = f"{machine}, Python {platform.python_version()}"
    printed = Table("claim", "what", "measured", "claimed", "holds", title=title)
    for line in lines:
        holds = {None: "", True: "yes", False: "NO"}[line.holds]
        printed.add_row(line.claim, line.what, line.found, line.claimed, holds)
    Console(width=None if os.isatty(1) else 140).print(printed)


def main(arguments: list[str] | None = None) -> list[Line]:
    """Measure and print; the lines, for a test."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default=",".join(CLAIMS), help="such as a,c")
    parser.add_argument("--turns", type=int, default=5, help="turns of each")
    parser.add_argument("--tiny", action="store_true", help="small sizes")
    options = parser.parse_args(arguments)
    if unknown := set(options.only.split(",")) - set(CLAIMS):
        parser.error(f"--only takes {', '.join(CLAIMS)}, got {', '.join(unknown)}")
    lines = [
        line
        for claim in options.only.split(",")
        for line in CLAIMS[claim](options.tiny, options.turns)
    ]
    if options.tiny:  # says nothing about the claims
        lines = [replace(line, holds=None) for line in lines]
    show(lines)
    return lines


if __name__ == "__main__":
    main()
