"""The tables: reference noise, the balance behind each row, special cases."""

from __future__ import annotations

import math

import pytest

import dpbraid as db
from dpbraid import InvalidParameterError
from dpbraid.privacy.account import calibrate
from dpbraid.privacy.gaussian import gaussian_mu
from dpbraid.theory.bounds import Form, convergence_bound
from dpbraid.theory.constants import facts
from dpbraid.theory.excess_risk import (
    Analysis,
    Row,
    Schedule,
    Setting,
    budget,
    paper_table,
    proved_table,
    required_noise,
)

# n = 1000, K = 50, G = 10, delta = 1e-6 (PRIVACY.md 9): noise_std at epsilon = 1, 5
REFERENCE = {
    ("dp", 1.0, "every_step", "paper"): (756.6, 161.1),
    ("dp", 1.0, "every_step", "composition"): (597.5, 138.6),
    ("dp", 1.0, "every_step", "hidden_state"): (86.54, 20.08),
    ("dp", 1.0, "epoch_end", "composition"): (597.5, 138.6),
    ("interleaved", 0.5, "every_step", "paper"): (33.8, 7.197),
    ("interleaved", 0.5, "every_step", "composition"): (26.69, 6.192),
    ("interleaved", 0.5, "every_step", "hidden_state"): (19.08, 4.426),
    ("interleaved", 0.5, "epoch_end", "composition"): (597.5, 138.6),
    ("priv_pub", 0.5, "every_step", "paper"): (535, 113.9),
    ("pub_priv", 0.5, "every_step", "hidden_state"): (85.5, 19.83),
    ("pub_priv", 0.5, "epoch_end", "composition"): (422.5, 98),
}


@pytest.mark.parametrize("case", REFERENCE)
def test_required_noise_meets_the_reference(case: tuple[str, float, str, str]) -> None:
    schedule, p, placement, analysis = case
    for epsilon, expected in zip((1.0, 5.0), REFERENCE[case], strict=True):
        setting = Setting(1000, 7, epsilon, 1e-6, p, lipschitz=10.0)
        noise = required_noise(
            setting, schedule, 50, placement=placement, analysis=analysis
        )
        assert noise == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("schedule", list(Schedule))
@pytest.mark.parametrize(
    ("placement", "analysis"),
    [
        ("every_step", "paper"),
        ("every_step", "composition"),
        ("every_step", "hidden_state"),
        ("epoch_end", "epoch_end"),
    ],
)
def test_required_noise_is_what_the_accountant_calibrates(
    schedule: Schedule, placement: str, analysis: str
) -> None:
    """Closed forms from facts against `dpbraid.privacy` on the mechanism itself."""
    setting = Setting(30, 4, 2.0, 1e-5, 0.5, lipschitz=1.0)
    options = {
        "learning_rate": 0.5,
        "placement": placement,
        "loss": db.Logistic(),
        "row_norm": 1.0,
        "order": db.Incremental(),
    }
    if schedule is Schedule.DP:
        mechanism = db.dp(30, 6, **options)
    else:
        make = getattr(db, schedule.value)
        mechanism = make(30, 6, private_fraction=0.5, **options)
    calibrated = calibrate(mechanism, epsilon=2.0, delta=1e-5, analysis=analysis)
    expected = max(epoch.noise_std for epoch in calibrated.epochs)
    if analysis == "epoch_end":
        analysis = "composition"
    got = required_noise(setting, schedule, 6, placement=placement, analysis=analysis)
    assert got == pytest.approx(expected, rel=1e-6)


def test_the_papers_budget_is_the_least_over_renyi_orders() -> None:
    epsilon, delta = 2.0, 1e-5
    mu = budget(epsilon, delta, Analysis.PAPER)
    orders = [1 + 10 ** (k / 1000 - 3) for k in range(7000)]
    least = min(a * mu**2 / 2 + math.log(1 / delta) / (a - 1) for a in orders)
    assert least == pytest.approx(epsilon, rel=1e-5)
    # and it never beats the exact one
    assert mu < gaussian_mu(epsilon, delta)


def by_schedule(rows: tuple[Row, ...]) -> dict[Schedule, Row]:
    return {row.schedule: row for row in rows}


def test_the_papers_table_by_hand() -> None:
    """n eps^2/d = 10: K, alpha, eta and the privacy term as the appendix derives."""
    setting = Setting(1000, 100, 1.0, 1e-6, 0.5)
    rows = by_schedule(paper_table(setting))
    dp = rows[Schedule.DP]
    assert dp.epochs == 10
    assert dp.privacy == pytest.approx(0.1 ** (2 / 3))
    R = 2 * 10 / dp.noise_std**2
    log = math.log(1e6)
    assert dp.alpha == pytest.approx(1 + math.sqrt(log / R))
    assert dp.alpha * R + log / (dp.alpha - 1) == pytest.approx(1.0)
    assert dp.learning_rate == pytest.approx(
        1 / (1000 * (10 * (1 + math.log(10))) ** (1 / 3))
    )
    half = rows[Schedule.PRIV_PUB]
    assert half.epochs == 20
    assert half.privacy == pytest.approx((0.1 * 0.5) ** (2 / 3))
    mixed = rows[Schedule.INTERLEAVED]
    assert mixed.epochs == math.ceil(10 * 501)
    assert mixed.privacy == pytest.approx((0.1 / 501) ** (2 / 3))
    # order and noise of every row meet the guarantee, n + 1 - n_d in the noise
    R = 2 * mixed.epochs / (501 * mixed.noise_std**2)
    assert mixed.alpha is not None
    assert mixed.alpha * R + log / (mixed.alpha - 1) == pytest.approx(1.0)
    assert not any(row.proved for row in rows.values())


@pytest.mark.parametrize("placement", list(db.Placement))
def test_all_private_rows_of_the_tables_are_dp(placement: db.Placement) -> None:
    setting = Setting(500, 10, 1.0, 1e-6, 1.0)
    for rows in (paper_table(setting), proved_table(setting, placement)):
        numbers = {
            (r.noise_std, r.learning_rate, r.epochs, r.privacy, r.alpha) for r in rows
        }
        assert len(numbers) == 1


@pytest.mark.parametrize("schedule", ["dp", "interleaved", "priv_pub", "pub_priv"])
@pytest.mark.parametrize("placement", list(db.Placement))
def test_proved_rows_balance_the_bound(schedule: str, placement: db.Placement) -> None:
    """Initialisation and noise of the bound at the row's choices are privacy/2 each.

    Up to the factors that the table drops: the geometric sum (<= 2), 1 + log of the
    number of noisy epochs, and the part of the noise that vanishes with eta.
    """
    setting = Setting(400, 5, 2.0, 1e-6, 0.5, lipschitz=0.7, smoothness=3.0)
    row = by_schedule(proved_table(setting, placement))[Schedule(schedule)]
    options = {
        "learning_rate": row.learning_rate,
        "noise_std": row.noise_std,
        "placement": placement,
        "loss": db.Logistic(),
        "penalty": db.Ball(1.0),
    }
    if schedule == "dp":
        mechanism = db.dp(setting.n, row.epochs, **options)
    else:
        make = getattr(db, schedule)
        mechanism = make(setting.n, row.epochs, private_fraction=0.5, **options)
    constants = facts(
        mechanism,
        dimension=setting.dimension,
        smoothness=setting.smoothness,
        distance=1.0,
        gradient_std=0.7,
        diameter=2.0,
    )
    bound = convergence_bound(constants, mechanism, Form.COROLLARY)
    half = row.privacy / 2
    log = 1 + math.log(row.epochs)
    assert half <= bound.initialisation * (1 + 1e-9) <= 2 * half * (1 + 1e-9) ** 2
    direct = half * log * 0.9 if schedule in ("dp", "interleaved") else half * 0.9
    assert direct <= bound.noise <= 2 * half * log * 2.6
    assert bound.optimisation <= 2 * row.privacy * log
    assert "learning rate" not in [c.name for c in bound.failed]


def test_rates_of_the_proved_table() -> None:
    """Exponents in n, d and p of the privacy term, schedule by schedule."""

    def exponent(schedule: str, placement: str, **change: float) -> float:
        base = {"n": 10_000, "dimension": 10, "private_fraction": 0.5}
        ((name, factor),) = change.items()
        other = {**base, name: type(base[name])(base[name] * factor)}
        rows = [
            by_schedule(
                proved_table(Setting(epsilon=1.0, delta=1e-6, **s), placement)  # type: ignore[arg-type]
            )[Schedule(schedule)].privacy
            for s in (base, other)
        ]
        return math.log(rows[1] / rows[0]) / math.log(factor)

    assert exponent("dp", "every_step", n=4) == pytest.approx(-0.5)
    assert exponent("dp", "epoch_end", n=4) == pytest.approx(-1.0)
    assert exponent("interleaved", "every_step", n=4) == pytest.approx(-1, abs=1e-3)
    assert exponent("interleaved", "epoch_end", n=4) == pytest.approx(-1.0)
    assert exponent("priv_pub", "every_step", n=4) == pytest.approx(-0.5)
    assert exponent("priv_pub", "epoch_end", private_fraction=0.5) == pytest.approx(0.5)
    assert exponent("interleaved", "epoch_end", private_fraction=0.5) == 0
    for schedule in Schedule:
        for placement in db.Placement:
            got = exponent(schedule.value, placement.value, dimension=4)
            assert got == pytest.approx(0.5)


def test_settings_and_tables_refuse_nonsense() -> None:
    for change in (
        {"n": 0},
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"private_fraction": 0.0},
        {"gradient_std": -1.0},
    ):
        values = {"n": 10, "dimension": 2, "epsilon": 1.0, "delta": 1e-6, **change}
        with pytest.raises(InvalidParameterError, match=next(iter(change))):
            Setting(**values)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="analysis"):
        proved_table(Setting(10, 2, 1.0, 1e-6), analysis="hidden_state")
