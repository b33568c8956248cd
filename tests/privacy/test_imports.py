"""What the import of the accountant takes along: hardly more than NumPy."""

from __future__ import annotations

import subprocess
import sys


def test_the_import_is_light() -> None:
    """SciPy, dp-accounting and the like are imported where they are used."""
    program = (
        "import sys, dpbraid.privacy; print(*{m.split('.')[0] for m in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    heavy = {"scipy", "dp_accounting", "numba", "sklearn", "pandas", "matplotlib"}
    loaded = set(done.stdout.split())
    assert {"dpbraid", "numpy"} <= loaded
    assert not loaded & heavy
