"""The ledger: every release on one private table, and the limit they share.

A ledger is one JSON file that the user makes for a data set, with the (epsilon, delta)
that all releases on it together may have. `charge` writes a release down, or refuses it
and changes nothing; it is called before the first noise of a run is drawn. So a run
that is killed is in the ledger, or has released nothing.

What the releases have together is a theorem of `dpbraid.privacy.releases`:

- settings "free" (the default): each release counts with the mu of its best Gaussian
  theorem, and ``mu^2 = sum_i mu_i^2``, exactly. Its settings may be chosen after seeing
  the releases before it. As long as there is one release alone, its own profile
  counts, which is smaller where an order is secret; a release that fits the limit by
  its profile and not by its mu stays the only one;
- settings "fixed": the user declares that the settings of all releases were fixed
  before the first. The privacy profiles themselves are composed, which is tighter
  where an order is secret.

Writers wait for each other: each holds an exclusive `flock` on a second file, ``.lock``
beside the ledger, while it reads, checks and replaces the ledger whole, on the disk
before `charge` returns. This needs a POSIX system and a file system whose `flock` holds
between all the machines that write. A ledger that is damaged, or was edited by hand, is
an error and is never written to.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from dpbraid import _json, _validate
from dpbraid._files import write_atomically
from dpbraid._validate import DpbraidError, InvalidParameterError
from dpbraid.privacy import releases
from dpbraid.privacy.certificate import Certificate, rounded_up
from dpbraid.privacy.gaussian import gaussian_epsilon, gaussian_mu
from dpbraid.privacy.profile import Curve, GaussianCurve, MinimumCurve

SCHEMA = "dpbraid.ledger/1"


class LedgerError(DpbraidError):
    """The ledger cannot be used; it has not been changed."""


class BudgetError(LedgerError):
    """The release would pass the ledger's limit; nothing was charged."""


class Settings(StrEnum):
    """When the settings of the releases are chosen."""

    FREE = "free"
    FIXED = "fixed"

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Charge:
    """One release: when it was charged (UTC), under which note, and its certificate."""

    time: str
    note: str
    certificate: Certificate


@dataclass(frozen=True)
class Ledger:
    """The content of a ledger: a name, the limit (epsilon, delta), and the charges."""

    data_set: str
    epsilon: float
    delta: float
    settings: Settings = Settings.FREE
    charges: tuple[Charge, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.data_set, str) or not self.data_set.strip():
            raise InvalidParameterError(
                f"data_set must be a name, got {self.data_set!r}"
            )
        _validate.positive(epsilon=self.epsilon)
        _validate.probability(delta=self.delta)
        settings = _validate.choice(Settings, settings=self.settings)
        object.__setattr__(self, "settings", settings)
        _validate.plain(self)

    @cached_property
    def curve(self) -> Curve:
        """What all charges have together: an upper bound on delta at each epsilon."""
        certificates = [charge.certificate for charge in self.charges]
        if self.settings is Settings.FIXED and certificates:
            return releases.composed([releases.curve(c) for c in certificates])
        if len(certificates) == 1:
            own = releases.curve(certificates[0])
            return MinimumCurve((own, GaussianCurve(self.mu)))
        return GaussianCurve(self.mu)

    @cached_property
    def mu(self) -> float:
        """The mu of all charges together, by their Gaussian theorems."""
        mus = [releases.gaussian_mu_of(charge.certificate) for charge in self.charges]
        return releases.gaussian_total(mus)

    @property
    def spent(self) -> float:
        """The epsilon of all charges together at the ledger's delta."""
        return self.curve.epsilon(self.delta) if self.charges else 0.0

    @property
    def within_limit(self) -> bool:
        """Whether all charges together keep (epsilon, delta)."""
        return self.curve.delta(self.epsilon) <= self.delta

    @property
    def left(self) -> float:
        """The epsilon, at the ledger's delta, of a Gaussian release that still fits.

        For settings "free"; with "fixed" there can be more.
        """
        mu = math.sqrt(max(self._most_mu**2 - self.mu**2, 0.0)) * (1 - 1e-12)
        return gaussian_epsilon(mu, self.delta) if mu > 0 else 0.0

    @property
    def _most_mu(self) -> float:
        return gaussian_mu(self.epsilon, self.delta)

    def charged(self, charge: Charge) -> Ledger:
        """The ledger with one more charge; BudgetError where that passes the limit."""
        more = replace(self, charges=(*self.charges, charge))
        if more.within_limit:
            return more
        left = (
            f"; {self.left:.4g} is left for a release with a Gaussian mu"
            if self.settings is Settings.FREE
            else ""
        )
        raise BudgetError(
            f"the release would pass the limit of data set {self.data_set!r}: all "
            f"{len(more.charges)} together would have epsilon "
            f"{rounded_up(more.spent)} at delta {self.delta!r}, and the limit is "
            f"{self.epsilon!r}{left}; nothing was charged"
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; `from_json` gives an equal ledger back."""
        content = {
            "schema": SCHEMA,
            "data_set": self.data_set,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "settings": self.settings.value,
            "charges": [
                {
                    "time": charge.time,
                    "note": charge.note,
                    "certificate": charge.certificate.to_json(),
                }
                for charge in self.charges
            ],
        }
        return {**content, "digest": _digest(content)}

    @classmethod
    def from_json(cls, data: Any) -> Ledger:
        """The ledger that `to_json` wrote; anything else is an error."""
        content = dict(
            _fields(
                data,
                "ledger",
                "schema data_set epsilon delta settings charges digest",
            )
        )
        if content["schema"] != SCHEMA:
            raise InvalidParameterError(
                f"schema must be {SCHEMA!r}, got {content['schema']!r}"
            )
        if content.pop("digest") != _digest(content):
            raise InvalidParameterError("the digest is not that of the content")
        if not isinstance(content["charges"], list):
            raise InvalidParameterError("charges must be a JSON list")
        charges = []
        for entry in content["charges"]:
            given = _fields(entry, "charge", "time note certificate")
            for name in ("time", "note"):
                if not isinstance(given[name], str):
                    raise InvalidParameterError(f"{name} must be a text")
            certificate = Certificate.from_json(given["certificate"])
            charges.append(Charge(given["time"], given["note"], certificate))
        return cls(
            content["data_set"],
            content["epsilon"],
            content["delta"],
            content["settings"],
            tuple(charges),
        )


def new(
    path: str | Path,
    data_set: str,
    *,
    epsilon: float,
    delta: float,
    settings: Settings | str = Settings.FREE,
) -> Ledger:
    """Make a ledger file for a data set; one that is there is never written over."""
    settings = _validate.choice(Settings, settings=settings)
    ledger = Ledger(data_set, epsilon, delta, settings)
    path = Path(os.path.realpath(path))
    with _locked(path):
        if path.exists():
            raise LedgerError(f"{path} exists already; it has not been changed")
        _write(path, ledger)
    return ledger


def read(path: str | Path) -> Ledger:
    """The ledger in a file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _missing(path) from None
    except UnicodeDecodeError:
        raise _damaged(path, "it is not a text") from None
    try:
        return Ledger.from_json(_json.parse(text))
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def charge(path: str | Path, certificate: Certificate, note: str = "") -> Ledger:
    """Write a release into a ledger, before it is made, and return the new ledger.

    The charge is on the disk when this returns. BudgetError where the release would
    pass the limit; then the file is as it was.
    """
    path = Path(os.path.realpath(path))
    read(path)  # what is no ledger gets no lock beside it
    with _locked(path):
        time = datetime.now(UTC).isoformat(timespec="seconds")
        ledger = read(path).charged(Charge(time, note, certificate))
        _write(path, ledger)
    return ledger


def _write(path: Path, ledger: Ledger) -> None:
    text = json.dumps(ledger.to_json(), indent=1, allow_nan=False) + "\n"
    write_atomically(path, text.encode())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone with the ledger among all processes; a killed one lets go."""
    try:
        import fcntl
    except ImportError:
        raise LedgerError(
            "a ledger needs the file locks of a POSIX system, which this is not"
        ) from None
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _missing(path: Path) -> LedgerError:
    return LedgerError(f"there is no ledger {path}; make one: dpbraid ledger new")


def _damaged(path: Path, reason: str) -> LedgerError:
    return LedgerError(
        f"{path} is no ledger, or a damaged one ({reason}); it has not been changed: "
        "put back a copy that holds all releases"
    )


def _fields(data: Any, what: str, names: str) -> dict[str, Any]:
    wanted = set(names.split())
    if not isinstance(data, dict) or set(data) != wanted:
        raise InvalidParameterError(
            f"a {what} is a JSON object with exactly the fields {sorted(wanted)}"
        )
    return data
