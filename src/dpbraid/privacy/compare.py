"""The comparison of PRIVACY.md 9: schedules, placements and analyses side by side.

Noise is given over the learning rate: the std of one noisy step (or of one epoch's
noise), and the std of all noise in the release if nothing contracts it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbraid import _validate
from dpbraid._files import write_atomically
from dpbraid.losses import Logistic
from dpbraid.mechanism import Mechanism, Placement, dp, interleaved, nearest, priv_pub
from dpbraid.orders import Incremental, Order, Reshuffle, ShuffleOnce
from dpbraid.privacy import comparisons
from dpbraid.privacy.account import account, calibrate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Setting:
    """What is compared: n rows, K epochs, n_d private rows an epoch of Interleaved."""

    n: int
    epochs: int
    private_rows: int
    clip_norm: float
    delta: float

    def __post_init__(self) -> None:
        _validate.integer(1, n=self.n, epochs=self.epochs)
        _validate.integer(1, self.n, private_rows=self.private_rows)
        _validate.positive(clip_norm=self.clip_norm)
        _validate.probability(delta=self.delta)


@dataclass(frozen=True)
class Row:
    """One method under one schedule, with its noise for each epsilon asked for.

    comparable: whether the guarantee is for replacing one row, as all of dpbraid's.
    """

    schedule: str
    method: str
    noise_std: tuple[float, ...]
    released_std: tuple[float, ...]
    comparable: bool = True


@dataclass(frozen=True)
class Method:
    """An analysis, with the order and placement that it is meant for.

    partial: whether it says more than the others only where some rows stay out.
    """

    name: str
    analysis: str
    order: Order
    placement: Placement = Placement.EVERY_STEP
    partial: bool = False


_END = Placement.EPOCH_END
METHODS = (
    Method("paper", "paper", Incremental()),
    Method("composition", "composition", Incremental()),
    Method("hidden state", "hidden_state", Incremental()),
    Method("secret order, once", "secret_order", ShuffleOnce()),
    Method("secret order, fresh", "secret_order", Reshuffle()),
    Method("epoch end", "epoch_end", Incremental(), _END),
    Method("epoch end, secret order, once", "secret_order", ShuffleOnce(), _END, True),
    Method("epoch end, secret order, fresh", "secret_order", Reshuffle(), _END, True),
)


def compare(
    setting: Setting, epsilons: Sequence[float], *, poisson: bool = True
) -> list[Row]:
    """The table. poisson: with DP-SGD by dp-accounting, which takes a few seconds."""
    rows = []
    for schedule, make in _schedules(setting).items():
        whole = not schedule.startswith("Interleaved")
        for method in METHODS:
            if not (whole and method.partial):
                rows.append(_row(schedule, method, make, setting, epsilons))
    return rows + _others(setting, epsilons, poisson)


def _schedules(s: Setting) -> dict[str, Callable[..., Mechanism]]:
    """Priv-Pub takes as many private gradients as Interleaved, in K n_d/n epochs."""
    fraction = s.private_rows / s.n
    schedules: dict[str, Callable[..., Mechanism]] = {
        "DP": lambda **common: dp(s.n, s.epochs, **common)
    }
    if fraction < 1:
        schedules[f"Interleaved, n_d = {s.private_rows}"] = lambda **common: (
            interleaved(s.n, s.epochs, private_fraction=fraction, **common)
        )
        private = nearest(fraction * s.epochs)
        if 0 < private < s.epochs:
            schedules[f"Priv-Pub or Pub-Priv, {private} private epochs"] = (
                lambda **common: priv_pub(
                    s.n, s.epochs, private_fraction=private / s.epochs, **common
                )
            )
    return schedules


def _row(
    schedule: str,
    method: Method,
    make: Callable[..., Mechanism],
    setting: Setting,
    epsilons: Sequence[float],
) -> Row:
    """Any loss with nonexpansive steps will do: only the clip norm counts."""
    mechanism = make(
        learning_rate=1.0,
        loss=Logistic(),
        row_norm=1.0,
        clip_norm=setting.clip_norm,
        order=method.order,
        placement=method.placement,
    )
    noise, released = [], []
    for epsilon in epsilons:
        found = calibrate(
            mechanism, epsilon=epsilon, delta=setting.delta, analysis=method.analysis
        )
        noise.append(max(epoch.noise_std for epoch in found.epochs))
        released.append(account(found, method.analysis).released_std)
    return Row(schedule, method.name, tuple(noise), tuple(released))


def _others(setting: Setting, epsilons: Sequence[float], poisson: bool) -> list[Row]:
    s = setting
    others: list[Callable[..., comparisons.Comparison]] = [
        lambda **target: comparisons.burst(s.n, s.epochs, s.clip_norm, **target),
        lambda **target: comparisons.gradient_descent(s.epochs, s.clip_norm, **target),
        lambda **target: comparisons.output_perturbation(
            s.epochs, s.clip_norm, **target
        ),
    ]
    if poisson:
        others += [
            lambda adjacency=adjacency, **target: comparisons.poisson_sgd(
                s.n, s.epochs, s.clip_norm, adjacency=adjacency, **target
            )
            for adjacency in comparisons.Adjacency
        ]
    rows = []
    for other in others:
        found = [other(epsilon=epsilon, delta=s.delta) for epsilon in epsilons]
        rows.append(
            Row(
                "another mechanism",
                found[0].mechanism,
                tuple(c.noise_std for c in found),
                tuple(c.released_std for c in found),
                found[0].comparable,
            )
        )
    return rows


# -- the picture ---------------------------------------------------------------------

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_FRACTIONS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def draw(setting: Setting, epsilon: float, out: Path) -> None:
    """Noise against epsilon, and against n_d at one epsilon (.png or .svg)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5), layout="constrained")
    step, released, private = figure.subplots(1, 3)
    rows = [
        row
        for row in compare(setting, _EPSILONS, poisson=False)
        if row.schedule[:3] in ("DP", "Int")
    ]
    for row in rows:
        style: Any = {
            "linestyle": "-" if row.schedule == "DP" else "--",
            "color": _color(row.method),
        }
        label = f"{row.schedule}: {row.method}"
        step.loglog(_EPSILONS, row.noise_std, label=label, **style)
        released.loglog(_EPSILONS, row.released_std, **style)
    step.set_title("noise of one noisy step")
    released.set_title("all noise in the release")
    for axes in (step, released):
        axes.set_xlabel("epsilon")
        axes.set_xticks(_EPSILONS, [f"{e:g}" for e in _EPSILONS])
        axes.minorticks_off()
    step.set_ylabel("std over learning rate")
    _against_private_rows(private, setting, epsilon)
    figure.legend(loc="outside lower center", ncols=4, fontsize="x-small")
    content = io.BytesIO()
    figure.savefig(content, format=out.suffix[1:], dpi=150)
    write_atomically(out, content.getvalue())


def _against_private_rows(axes: Axes, setting: Setting, epsilon: float) -> None:
    counts = sorted({max(1, nearest(f * setting.n)) for f in _FRACTIONS})
    for method in METHODS:
        stds = [
            _row(
                "Interleaved",
                method,
                lambda count=count, **common: interleaved(
                    setting.n,
                    setting.epochs,
                    private_fraction=count / setting.n,
                    **common,
                ),
                setting,
                [epsilon],
            ).released_std[0]
            for count in counts
        ]
        axes.loglog(counts, stds, "--", marker=".", color=_color(method.name))
    axes.set_title(f"all noise, Interleaved at epsilon = {epsilon:g}")
    axes.set_xlabel("private rows an epoch, n_d")


def _color(method: str) -> str:
    return f"C{[m.name for m in METHODS].index(method)}"
