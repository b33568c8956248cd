"""Rebuild the embedded data sets from the original files.

    python scripts/build_data.py --data-dir ../shared/data [--out FOLDER] [--check]

The same files give the same bytes on every machine. --check writes nothing and fails
where the result differs from what is embedded.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpbraid.paper import embedded
from dpbraid.paper.tasks import SOURCES


def main() -> int:
    """Build, or check, the embedded files."""
    parser = argparse.ArgumentParser(description="Rebuild the embedded data sets.")
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=embedded.FOLDER)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    cuts = {
        name: source.trim(source.from_files(arguments.data_dir))
        for name, source in SOURCES.items()
    }
    if not arguments.check:
        table = embedded.write(cuts, arguments.out)
        for name, digest in table.items():
            size = (arguments.out / name).stat().st_size
            print(f"{digest}  {size:>9}  {name}")
        return 0
    built = {f"{name}.npz": embedded.pack(cut) for name, cut in cuts.items()}
    found = {name: embedded.sha256(data) for name, data in built.items()}
    if found != embedded.checksums(arguments.out):
        print("the embedded files differ from what --data-dir gives", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
