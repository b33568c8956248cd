"""The ledger: exact sums, one writer at a time, nothing lost where a run is killed."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dpbraid.privacy import gaussian_epsilon, gaussian_mu, ledger
from dpbraid.privacy.certificate import Certificate
from dpbraid.privacy.ledger import BudgetError, Ledger, LedgerError
from dpbraid.release import NoiseSource
from tests.privacy.test_certificate import certificate

CHILD = """
import sys
from pathlib import Path
from dpbraid.privacy import ledger
from dpbraid.privacy.certificate import Certificate
certificate = Certificate.loads(Path(sys.argv[2]).read_text())
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    try:
        ledger.charge(sys.argv[1], certificate, sys.argv[4] + str(number))
    except ledger.BudgetError:
        print("refused", flush=True)
    else:
        print("released", flush=True)
"""


@pytest.fixture(scope="module")
def gaussian() -> Certificate:
    return certificate("epoch_end")


@pytest.fixture(scope="module")
def secret() -> Certificate:
    return certificate("secret_order_fresh")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.json"


def room_for(certificate: Certificate, count: float) -> float:
    """An epsilon that holds `count` such releases, by their mu."""
    assert certificate.mu is not None
    return gaussian_epsilon(certificate.mu * math.sqrt(count), 1e-6)


def child(path: Path, certificate: Path, count: int, name: str) -> subprocess.Popen:  # type: ignore[type-arg]
    command = [sys.executable, "-c", CHILD, path, certificate, str(count), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_gaussian_releases_up_to_the_limit(path: Path, gaussian: Certificate) -> None:
    ledger.new(path, "patients", epsilon=room_for(gaussian, 3.5), delta=1e-6)
    for count in (1, 2, 3):
        after = ledger.charge(path, gaussian, f"model {count}")
        assert gaussian.mu is not None
        assert after.mu == pytest.approx(gaussian.mu * math.sqrt(count), rel=1e-13)
        assert after.spent == pytest.approx(gaussian_epsilon(after.mu, 1e-6))
        assert ledger.read(path) == after
    before = path.read_bytes()
    with pytest.raises(BudgetError, match="all 4 together would have epsilon"):
        ledger.charge(path, gaussian)
    assert path.read_bytes() == before
    assert after.left == pytest.approx(room_for(gaussian, 0.5), rel=1e-6)
    assert [charge.note for charge in after.charges] == [
        "model 1",
        "model 2",
        "model 3",
    ]


def test_exactly_the_limit_is_within_it(path: Path, gaussian: Certificate) -> None:
    assert gaussian.epsilon is not None
    ledger.new(path, "patients", epsilon=gaussian.epsilon, delta=gaussian.delta)
    assert ledger.charge(path, gaussian).spent <= gaussian.epsilon
    with pytest.raises(BudgetError):
        ledger.charge(path, gaussian)


def test_a_secret_order_alone_counts_by_its_profile(
    path: Path, secret: Certificate
) -> None:
    """Its mu is above the limit's: it may be the only release, and is the last."""
    assert secret.epsilon is not None
    ledger.new(path, "patients", epsilon=secret.epsilon, delta=secret.delta)
    after = ledger.charge(path, secret)
    assert after.mu > gaussian_mu(secret.epsilon, secret.delta)
    assert after.spent == pytest.approx(secret.epsilon, rel=1e-9)
    assert after.left == 0
    with pytest.raises(BudgetError):
        ledger.charge(path, certificate("epoch_end"))


def test_free_settings_count_mu_where_more_than_one(
    path: Path, secret: Certificate, gaussian: Certificate
) -> None:
    ledger.new(path, "patients", epsilon=30, delta=1e-6)
    alone = ledger.charge(path, secret)
    assert alone.spent == pytest.approx(secret.epsilon, rel=1e-9)
    both = ledger.charge(path, gaussian)
    assert gaussian.mu is not None
    assert both.mu == pytest.approx(math.hypot(alone.mu, gaussian.mu), rel=1e-13)
    assert both.spent == gaussian_epsilon(both.mu, 1e-6)


def test_fixed_settings_compose_profiles(
    tmp_path: Path, secret: Certificate, gaussian: Certificate
) -> None:
    spent = {}
    for settings in ("free", "fixed"):
        path = tmp_path / settings
        ledger.new(path, "patients", epsilon=30, delta=1e-6, settings=settings)
        ledger.charge(path, secret)
        spent[settings] = ledger.charge(path, gaussian).spent
    assert secret.epsilon is not None
    assert gaussian.epsilon is not None
    assert max(secret.epsilon, gaussian.epsilon) < spent["fixed"] < spent["free"]
    assert spent["fixed"] < secret.epsilon + gaussian.epsilon


def test_a_seeded_run_is_refused(path: Path) -> None:
    ledger.new(path, "patients", epsilon=3, delta=1e-6)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="promises nothing"):
        ledger.charge(path, certificate(source=NoiseSource.USER_SEED))
    assert path.read_bytes() == before


def test_a_ledger_is_never_written_over(path: Path, gaussian: Certificate) -> None:
    ledger.new(path, "patients", epsilon=3, delta=1e-6)
    after = ledger.charge(path, gaussian)
    with pytest.raises(LedgerError, match="exists already"):
        ledger.new(path, "patients", epsilon=3, delta=1e-6)
    assert ledger.read(path) == after


def test_no_ledger_is_no_budget(path: Path, gaussian: Certificate) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        ledger.charge(path, gaussian)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"epsilon": 3.0', '"epsilon": 30.0', 1),
        lambda text: text.replace("patients", "clients"),
        lambda text: json.dumps({**json.loads(text), "charges": []}),
        lambda text: json.dumps({**json.loads(text), "more": 1}),
        lambda text: text.replace("ledger/1", "ledger/2"),
        lambda text: "[" * 100_000,
        lambda text: "\x00",
    ],
    ids="empty cut limit name forgets more schema deep zero".split(),
)
def test_a_damaged_ledger_is_left_alone(
    path: Path, gaussian: Certificate, damage: object
) -> None:
    ledger.new(path, "patients", epsilon=3, delta=1e-6)
    ledger.charge(path, gaussian)
    assert callable(damage)
    damaged = damage(path.read_text())
    assert damaged != path.read_text()
    path.write_text(damaged)
    for use in (lambda: ledger.read(path), lambda: ledger.charge(path, gaussian)):
        with pytest.raises(LedgerError, match="no ledger, or a damaged one"):
            use()
    with pytest.raises(LedgerError):
        ledger.new(path, "patients", epsilon=3, delta=1e-6)
    assert path.read_text() == damaged


def test_bytes_that_are_no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(LedgerError, match="not a text"):
        ledger.read(path)


@pytest.mark.parametrize(
    "values",
    [
        {"data_set": " "},
        {"epsilon": 0},
        {"epsilon": float("inf")},
        {"delta": 1},
        {"settings": "loose"},
    ],
)
def test_a_limit_must_be_one(values: dict[str, object]) -> None:
    good = {"data_set": "patients", "epsilon": 3, "delta": 1e-6}
    with pytest.raises(ValueError, match=next(iter(values))):
        Ledger(**{**good, **values})  # type: ignore[arg-type]


def test_a_link_stays_a_link(tmp_path: Path, path: Path, gaussian: Certificate) -> None:
    ledger.new(path, "patients", epsilon=3, delta=1e-6)
    link = tmp_path / "elsewhere" / "link.json"
    link.parent.mkdir()
    link.symlink_to(path)
    ledger.charge(link, gaussian)
    assert link.is_symlink()
    assert len(ledger.read(path).charges) == 1


def test_a_ledger_keeps_its_mode(path: Path, gaussian: Certificate) -> None:
    ledger.new(path, "patients", epsilon=3, delta=1e-6)
    path.chmod(0o640)
    ledger.charge(path, gaussian)
    assert path.stat().st_mode & 0o777 == 0o640


def test_json_is_lossless(gaussian: Certificate, secret: Certificate) -> None:
    made = Ledger("patients", 50, 1e-6, ledger.Settings.FIXED)
    for one in (gaussian, secret, replace(gaussian, declarations=("é",))):
        made = made.charged(ledger.Charge("2026-01-01T00:00:00+00:00", "", one))
    assert Ledger.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_racing_writers_lose_no_charge(path: Path, gaussian: Certificate) -> None:
    """Four processes, six releases each, room for ten: ten, whoever made them."""
    ledger.new(path, "patients", epsilon=room_for(gaussian, 10.5), delta=1e-6)
    file = path.with_name("certificate.json")
    file.write_text(gaussian.dumps())
    children = [child(path, file, 6, name) for name in "abcd"]
    lines = [line for c in children for line in c.communicate(timeout=120)[0].split()]
    assert all(c.returncode == 0 for c in children)
    assert (lines.count("released"), lines.count("refused")) == (10, 14)
    notes = [charge.note for charge in ledger.read(path).charges]
    assert len(notes) == len(set(notes)) == 10


def test_a_killed_writer_is_in_the_ledger_or_released_nothing(
    path: Path, gaussian: Certificate
) -> None:
    """Killed at 8 points: at most the one charge in flight is there unreleased."""
    ledger.new(path, "patients", epsilon=1e4, delta=1e-6)
    file = path.with_name("certificate.json")
    file.write_text(gaussian.dumps())
    points = random.Random(6)
    known = 0
    for number in range(8):
        process = child(path, file, 1000, f"{number}.")
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(points.uniform(0, 0.15))
        process.kill()
        released = process.communicate(timeout=60)[0].split().count("released")
        charges = len(ledger.read(path).charges)
        assert known + released <= charges <= known + released + 1
        known = charges
    assert len(ledger.charge(path, gaussian).charges) == known + 1
