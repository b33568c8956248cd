"""Every planted bug is found by the audit named for it, which passes without the bug."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpbraid.audit import Audit, audit
from dpbraid.privacy import PrivacyAssumptionError
from tests.audit.planted import BUGS, Bug

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
# Seeds are fixed, so these tests fail always or never; an audit of a true claim with a
# seed drawn anew would fail with probability 1e-3.
CONFIDENCE = 0.999

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
    again = attacked(bug)  # nothing stays planted
    assert (again is None) == (sound is None)
    assert again is None or sound is None or again.evidence.mu == sound.evidence.mu


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
