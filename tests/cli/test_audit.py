"""dpbraid audit: files in, verdict and exit code out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import dpbraid as db
from dpbraid.estimators import PrivateLogisticRegression, save
from tests.cli.run import dpbraid

MECHANISM = db.dp(
    4,
    2,
    loss=db.Squared(),
    clip_norm=1.0,
    row_norm=1.0,
    learning_rate=0.1,
    noise_std=1.0,
    placement="epoch_end",
)


def test_a_mechanism_is_audited(capsys: Any, tmp_path: Path) -> None:
    file, out = tmp_path / "mechanism.json", tmp_path / "audit.svg"
    file.write_text(MECHANISM.dumps())
    words = ("--runs", 60, "--analysis", "epoch_end", "--out", out)
    done = dpbraid(capsys, "audit", file, *words)
    assert done.code == 0, done.err
    assert "analysis 'epoch_end': 60 runs a side" in done.out
    assert "The claim holds" in done.out
    assert f"Picture: {out}" in done.out
    assert b"<svg" in out.read_bytes()
    done = dpbraid(capsys, "audit", file, "--seconds", 0.3, "--runs", 10**6, "--json")
    assert done.code == 0
    facts = json.loads(done.out)
    assert facts["schema"] == "dpbraid.audit/1"
    assert 2 <= facts["runs_a_side"] < 10**6


def test_a_model_that_promises_too_much_ends_with_1(
    capsys: Any, tmp_path: Path
) -> None:
    file = tmp_path / "model.json"
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    model = PrivateLogisticRegression(
        epsilon=8.0, delta=1e-5, row_norm=2.0, classes=[0, 1], epochs=3, clip_norm=0.5
    )
    save(model.fit(X, X[:, 0] > 0), file)
    done = dpbraid(capsys, "audit", file, "--runs", 600, "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["claim"]["delta"] == 1e-5
    assert facts["lower_bounds"]["mu_threshold_test"] > 0.3
    data = json.loads(file.read_text())
    for option, value in (("--delta", 0.1), ("--analysis", "best"), ("--dimension", 3)):
        done = dpbraid(capsys, "audit", file, option, value)
        assert done.code == 2
        assert f"{option} goes with a mechanism" in done.err
    data["certificate"]["guarantee"]["mu"] = 0.1
    file.write_text(json.dumps(data))
    done = dpbraid(capsys, "audit", file, "--runs", 600)
    assert done.code == 1
    assert "REFUTED" in done.out


def test_one_run_on_the_command_line(capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "mechanism.json"
    file.write_text(MECHANISM.dumps())
    done = dpbraid(capsys, "audit", file, "--one-run", "--dimension", 4, "--json")
    assert done.code == 0
    assert json.loads(done.out)["canaries"] == 4
    done = dpbraid(capsys, "audit", file, "--one-run", "--runs", 3, "--json")
    assert json.loads(done.out)["runs"] == 3
    for option, value in (("--out", tmp_path / "a.png"), ("--seconds", 1)):
        done = dpbraid(capsys, "audit", file, "--one-run", option, value)
        assert done.code == 2
        assert done.err == f"dpbraid: {option} does not go with --one-run\n"


def test_what_is_neither_is_one_line(capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    for text, part in (
        ("[]", "certificate must be a JSON object"),
        ("{}", "certificate takes exactly the fields"),
        ('{"schema": "dpbraid.mechanism/1"}', "mechanism takes exactly the fields"),
        ("{", "is not a JSON file"),
    ):
        file.write_text(text)
        done = dpbraid(capsys, "audit", file)
        assert done.code == 2
        assert part in done.err
        assert done.err.count("\n") == 1
    done = dpbraid(capsys, "audit", tmp_path / "missing.json")
    assert done.code == 2
    file.write_text(MECHANISM.dumps())
    done = dpbraid(capsys, "audit", file, "--out", tmp_path / "audit.txt")
    assert done.code == 2
    assert "out must end in .png or .svg" in done.err
