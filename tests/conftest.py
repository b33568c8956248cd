"""Shared settings: hypothesis without deadlines (compilation takes its time)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("dpbraid", deadline=None, print_blob=True)
settings.load_profile("dpbraid")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def originals() -> Path:
    """The original files, where they are: in ../shared/data or $DPBRAID_DATA_DIR."""
    given = os.environ.get("DPBRAID_DATA_DIR")
    folder = Path(given) if given else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the original files are not in {folder}")
    return folder
