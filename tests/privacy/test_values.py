"""Every reference value (tests/golden/privacy_values.json) at its tolerance.

The values come from another implementation at high precision; each is reached here by
the public way: a Mechanism and `account` or `calibrate`, or a building block.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbraid as db
from dpbraid.privacy import (
    account,
    calibrate,
    comparisons,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    iteration_mu,
    participation,
)
from dpbraid.privacy.profile import MixtureCurve
from tests.privacy.instances import clipped, linear_mu, mean_mu, repeated, reset_mu

FILE = Path(__file__).parents[1] / "golden" / "privacy_values.json"
VALUES = json.loads(FILE.read_text())["values"]

# Gridded upper bounds: never below the reference, above by at most the tolerance.
ONE_SIDED = {"delta_E_RR_hull", "delta_RR_interleaved"}


def noise_of(mechanism: db.Mechanism) -> float:
    return max(epoch.noise_std for epoch in mechanism.epochs)


def calibrated(config: dict[str, Any], analysis: str, **changes: Any) -> float:
    mechanism = clipped(
        config["n"],
        [(config.get("n_d", config["n"]), 1.0)] * config["K"],
        clip_norm=config["G"],
        **changes,
    )
    found = calibrate(
        mechanism, epsilon=config["eps"], delta=config["delta"], analysis=analysis
    )
    return noise_of(found)


def secret(c: dict[str, Any], order: db.Order, placement: str = "every_step") -> float:
    noise = c["w_over_G"] if placement == "epoch_end" else c["sigma_over_G"]
    mechanism = clipped(
        c["n"], [(c["n_d"], noise)] * c["K"], order=order, placement=placement
    )
    return account(mechanism, "secret_order").delta(c["eps"])


def contraction(c: dict[str, Any]) -> dict[str, float]:
    factors = np.full(c["n"] * c["K"], c["c_step"])
    factors[c["n"] :: c["n"]] *= c["prox_factor"]
    shifts = repeated(c["n"], c["K"], c["j"], c["shift"])
    mu = iteration_mu(shifts, np.full(len(shifts), c["sigma"]), factors)
    return {"mu2": mu**2, "mu": mu}


def bounded(c: dict[str, Any]) -> dict[str, float]:
    shifts = repeated(c["n"], c["K"], c["j"], c["shift"])
    mu = iteration_mu(
        shifts,
        np.full(len(shifts), c["sigma"]),
        diameter=c["diameter"],
        epoch_ends=range(c["n"], len(shifts) + 1, c["n"]),
    )
    return {"mu2": mu**2, "mu": mu}


def general(c: dict[str, Any]) -> dict[str, float]:
    mu = iteration_mu(c["s"], c["sigma"], c["c"])
    return {"mu2": mu**2, "mu": mu}


def law(c: dict[str, Any]) -> dict[str, float]:
    values, weights = participation.hull_cost_law(c["K"], c["p"])
    beyond = values > 2 * c["p"] ** 2 * c["K"] * (1 + 1e-12)
    return {
        "mean": float(values @ weights),
        "prob_cost_gt_2p2K": float(np.sum(weights[beyond])),
        "atoms": len(values) + (np.sum(weights) < 1 - 1e-12),
    }


def paper(c: dict[str, Any]) -> dict[str, float]:
    sigma = calibrated(c, "paper")
    m = c["n"] - c["n_d"] + 1
    rate = 2 * c["K"] * c["G"] ** 2 / (m * sigma**2)
    return {"sigma": sigma, "alpha": 1 + math.sqrt(-math.log(c["delta"]) / rate)}


def with_mu(c: dict[str, Any], analysis: str) -> dict[str, float]:
    return {
        "sigma": calibrated(c, analysis),
        "mu": gaussian_mu(c["eps"], c["delta"]),
    }


def epoch_end(c: dict[str, Any]) -> dict[str, float]:
    target = {"epsilon": c["eps"], "delta": c["delta"]}
    epochs = [(7, 1.0)] * c["private_epochs"]
    mechanism = clipped(7, epochs, clip_norm=c["G"], placement="epoch_end")
    found = calibrate(mechanism, **target, analysis="epoch_end")
    bolt_on = comparisons.output_perturbation(c["private_epochs"], c["G"], **target)
    return {
        "per_epoch_std": noise_of(found),
        "released_std_over_eta": account(found, "epoch_end").released_std,
        "bolt_on_std_over_eta": bolt_on.released_std,
    }


def burst(c: dict[str, Any]) -> dict[str, float]:
    found = comparisons.burst(
        c["n"],
        c["K"],
        c["G"],
        epsilon=c["eps"],
        delta=c["delta"],
        private_rows=c["n_d"],
    )
    return {
        "sigma": found.noise_std,
        "final_burst_std": found.final_std,
        "released_std_over_eta": found.released_std,
    }


def epoch_end_contraction(c: dict[str, Any]) -> dict[str, float]:
    """Ridge with (1 + eta n weight) = 1/r, one noise at each epoch's end."""
    r = c["prox_factor"]
    mechanism = clipped(
        4,
        [(4, c["w"])] * c["K"],
        clip_norm=c["shift"] / 2,
        placement="epoch_end",
        penalty=db.Ridge((1 / r - 1) / 4),
    )
    profile = account(mechanism, "hidden_state")
    assert profile.mu is not None
    return {
        "mu2": profile.mu**2,
        "released_std_before_last_prox": profile.released_std,
    }


def schedule(c: dict[str, Any], **changes: Any) -> dict[str, float]:
    """Epochs of their own: private rows and noise, and learning rates."""
    epochs = list(zip(c["n_d"], c["sigma_over_G"], strict=True))
    mu = account(clipped(c["n"], epochs, **changes), "hidden_state").mu
    assert mu is not None
    return {"mu2": mu**2, "mu": mu}


def decay(c: dict[str, Any]) -> dict[str, float]:
    """Every learning rate by the same factor changes nothing, so 2/L is no matter."""
    epochs = [(c["n_d"], c["sigma_over_G"])] * c["K"]
    mu = account(clipped(c["n"], epochs, rates=c["eta"]), "hidden_state").mu
    assert mu is not None
    return {"mu2": mu**2, "mu": mu}


def fallback(c: dict[str, Any]) -> dict[str, float]:
    """Public rows without a bound: their steps have no certificate."""
    mechanism = db.Mechanism(
        n=c["n"],
        epochs=(db.Epoch(c["n_d"], c["n"] - c["n_d"], 1.0, c["sigma_over_G"]),)
        * c["K"],
        loss=db.Logistic(),
        clip_norm=1.0,
        row_norm=1.0,
        public_row_norm=1e6,
    )
    mu = account(mechanism, "composition").mu
    assert mu is not None
    return {"mu2": mu**2}


def exact_mean(c: dict[str, Any]) -> dict[str, float]:
    shifts = repeated(c["n"], c["K"], c["j"], c["eta"] * c["data_distance"])
    noise = np.full(len(shifts), c["eta"] * c["sigma"])
    factors = np.full(len(shifts), abs(1 - c["eta"]))
    factors[c["n"] :: c["n"]] *= c["prox_factor"]
    return {
        "mu_exact": mean_mu(shifts, noise, factors),
        "mu_bound": iteration_mu(shifts, noise, factors),
    }


def reset(c: dict[str, Any]) -> dict[str, float]:
    shifts = repeated(c["n"], c["K"], c["j"], c["shift"])
    bound = iteration_mu(shifts, np.full(len(shifts), c["sigma"]))
    exact = reset_mu(c["K"], c["n"], c["j"], c["shift"] / c["sigma"])
    return {
        "mu2_instance": exact**2,
        "mu2_bound": bound**2,
        "ratio_mu": bound / exact,
    }


def value(function: Callable[[dict[str, Any]], float]) -> Callable[..., Any]:
    return lambda config: {"value": function(config)}


ROUTES: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
    "delta_gauss": value(lambda c: gaussian_delta(c["eps"], c["mu"])),
    "mu_from_eps_delta": value(lambda c: gaussian_mu(c["eps"], c["delta"])),
    "eps_from_mu_delta": value(lambda c: gaussian_epsilon(c["mu"], c["delta"])),
    "sigma_A": paper,
    "sigma_B": lambda c: with_mu(c, "composition"),
    "sigma_C": lambda c: with_mu(c, "hidden_state"),
    "mu2_general": general,
    "mu2_contraction": contraction,
    "mu2_bounded": bounded,
    "delta_SO": value(lambda c: secret(c, db.ShuffleOnce())),
    "delta_RR_full": value(lambda c: secret(c, db.Reshuffle())),
    "sigma_SO": value(lambda c: calibrated(c, "secret_order", order=db.ShuffleOnce())),
    "sigma_RR_full": value(
        lambda c: calibrated(c, "secret_order", order=db.Reshuffle())
    ),
    "hull_cost_law": law,
    "delta_E_RR_hull": value(
        lambda c: participation.epoch_end(
            c["K"], c["n_d"], c["n"], 2 / c["w_over_G"]
        ).delta(c["eps"])
    ),
    "delta_RR_interleaved": value(
        lambda c: participation.every_step(
            c["K"], c["n_d"], c["n"], 1, c["n_d"], c["n"], 2 / c["sigma_over_G"]
        ).delta(c["eps"])
    ),
    "delta_wor_single": value(
        lambda c: MixtureCurve(np.array([c["mu"]]), np.ones(1), c["p"]).delta(c["eps"])
    ),
    "delta_E_wor": value(lambda c: secret(c, db.Reshuffle(), "epoch_end")),
    "epoch_end_noise": epoch_end,
    "per_step_plus_final_burst": burst,
    "exact_linear_mu": value(
        lambda c: linear_mu(c["K"] * [2 * c["G"]], c["K"] * c["n"] * [c["sigma"]])
    ),
    "exact_mean_mu": exact_mean,
    "reset_lower_bound": reset,
    "sigma_C_minibatch": value(
        lambda c: calibrated(c, "hidden_state", batch_size=c["batch"])
    ),
    "mu2_epoch_end_contraction": epoch_end_contraction,
    "delta_E_SO": value(lambda c: secret(c, db.ShuffleOnce(), "epoch_end")),
    "mu2_schedule": schedule,
    "mu2_eta_schedule": decay,
    "mu2_fallback_restart": fallback,
}


@pytest.mark.parametrize("entry", VALUES, ids=[v["id"] for v in VALUES])
def test_reference_value(entry: dict[str, Any]) -> None:
    found = ROUTES[entry["kind"]](entry["config"])
    assert set(found) == set(entry["expect"])
    for name, text in entry["expect"].items():
        expected, tolerance = float(text), entry["rel_tol"]
        assert abs(found[name] / expected - 1) <= tolerance, (name, found[name], text)
        if entry["kind"] in ONE_SIDED:
            assert found[name] >= expected * (1 - 1e-9)


def test_every_kind_has_a_value() -> None:
    assert set(ROUTES) == {v["kind"] for v in VALUES}
