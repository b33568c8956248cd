"""Every planted bug is found by its audit, which passes without the bug."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpbraid.audit import Audit, audit
from dpbraid.privacy import PrivacyAssumptionError
from tests.audit.planted import BUGS, Bug

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
# Seeds are fixed. If the engine's streams ever change, an audit of a true claim fails
# with probability 1e-7; the bounds on bugs lie 5 standard errors and more over claims.
CONFIDENCE = 1 - 1e-7

_found: dict[str, Audit] = {}


def attacked(bug: Bug) -> Audit | None:
    """The audit of the bug's mechanism; None where the accountant claims nothing."""
    try:
        return audit(
            bug.mechanism,
            analysis=bug.analysis,
            runs=bug.runs,
            confidence=CONFIDENCE,
            dimension=1,
        )
    except PrivacyAssumptionError:
        return None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_auditor_finds_the_bug(bug: Bug) -> None:
    sound = attacked(bug)
    assert sound is None or sound.holds
    with bug.planted():
        broken = attacked(bug)
    assert broken is not None
    assert not broken.holds
    _found[bug.name] = broken


def test_the_bug_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints what was found, where the tests above ran."""
    with capsys.disabled():
        print(f"\n{'planted bug':<54}{'pair':<12}{'claimed mu':>10}{'mu >=':>9}")
        for name, found in _found.items():
            e = found.evidence
            print(f"{name:<54}{e.neighbours:<12}{found.claimed_mu:>10.3f}{e.mu:>9.3f}")


def test_the_table_in_the_docs_is_this_one() -> None:
    rows = re.findall(r"^\| ([^|]+) \| `audit`: ([^|]+) \|$", PAGE.read_text(), re.M)
    assert rows == [(bug.name, bug.found_by) for bug in BUGS]
