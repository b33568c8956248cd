"""What the fork server imports before it forks: see `warm`."""

from __future__ import annotations

from tests.faults.warm import warm_up

warm_up()
