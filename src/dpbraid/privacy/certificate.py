"""The certificate: what was promised, by which theorem, under which assumptions.

A certificate holds no value that depends on private rows: it is made from the
mechanism, the source of the noise and public sizes alone, and can be made before the
run. `text` prints it for a reviewer in the order that Ponomareva et al. (2023), *How to
DP-fy ML*, section 5.3.3, ask for; `verify` recomputes it from the file alone.
"""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import partial
from importlib import metadata
from textwrap import fill
from typing import Any

from dpbraid import _json, _validate
from dpbraid._validate import InvalidParameterError
from dpbraid._variant import Variant
from dpbraid.mechanism import Mechanism
from dpbraid.privacy.account import account
from dpbraid.privacy.profile import (
    Assumption,
    GaussianCurve,
    PrivacyAssumptionError,
    PrivacyProfile,
)
from dpbraid.release import NoiseSource, NumericModel
from dpbraid.starts import Given

SCHEMA = "dpbraid.certificate/1"
MAX_RUNS = 1_000_000
MAX_DIMENSION = 100_000_000
ADJACENCY = (
    "Two tables are neighbours if one private row is replaced by any other row. The "
    "number of private rows n is public."
)
RELEASED = (
    "The last iterate of each run, and what is computed from it without the private "
    "rows. No other iterate, gradient, loss or statistic of private rows leaves it."
)
# A title and its points.
Section = tuple[str, list[str]]
PUBLIC_ROWS = (
    "The public rows, all bounds and all settings were chosen without looking at the "
    "private rows."
)

_fields = partial(_json.fields, InvalidParameterError)
_items = partial(_json.items, InvalidParameterError)
_text = partial(_json.text, InvalidParameterError)


@dataclass(frozen=True)
class Certificate:
    """A guarantee for the release of one or more runs of a mechanism.

    epsilon: the guarantee at delta; None where there is none (a seeded run). mu: the
    Gaussian guarantee, where the analysis gives one. runs: how many independent runs
    on the same private rows the guarantee covers together (one-vs-rest has one a
    class). declarations: what the user says and the software cannot check. versions:
    (name, version) of the software.
    """

    mechanism: Mechanism
    epsilon: float | None
    delta: float
    mu: float | None
    analysis: str
    assumptions: tuple[Assumption, ...]
    noise_source: NoiseSource
    numeric: NumericModel
    declarations: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    runs: int = 1

    @property
    def accounted(self) -> Mechanism:
        """The one mechanism in real arithmetic whose guarantee all runs have."""
        return accounted(self.mechanism, self.numeric, self.runs)

    @property
    def is_private(self) -> bool:
        """Whether anything is guaranteed; a seeded run guarantees nothing."""
        return self.epsilon is not None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; `from_json` gives an equal certificate back."""
        return {
            "schema": SCHEMA,
            "guarantee": {
                "epsilon": self.epsilon,
                "delta": self.delta,
                "mu": self.mu,
                "analysis": self.analysis,
                "adjacency": ADJACENCY,
                "released": RELEASED,
            },
            "assumptions": [dataclasses.asdict(a) for a in self.assumptions],
            "declarations": list(self.declarations),
            "noise_source": self.noise_source.value,
            "numeric": dataclasses.asdict(self.numeric),
            "mechanism": self.mechanism.to_json(),
            "runs": self.runs,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, data: Any) -> Certificate:
        """The certificate that `to_json` wrote; anything else is an error."""
        top = _fields(
            data,
            "certificate",
            "schema guarantee assumptions declarations noise_source numeric mechanism "
            "runs versions",
        )
        if top["schema"] != SCHEMA:
            raise InvalidParameterError(
                f"schema must be {SCHEMA!r}, got {top['schema']!r}"
            )
        guarantee = _fields(
            top["guarantee"],
            "guarantee",
            "epsilon delta mu analysis adjacency released",
        )
        for name, text in (("adjacency", ADJACENCY), ("released", RELEASED)):
            if guarantee[name] != text:
                raise InvalidParameterError(
                    f"{name} must read {text!r}, got {guarantee[name]!r}"
                )
        for name in ("epsilon", "mu"):
            if guarantee[name] is not None:
                _validate.nonnegative(**{name: guarantee[name]})
        _validate.probability(delta=guarantee["delta"])
        numeric = _fields(
            top["numeric"], "numeric", "dimension grid iterate_bound noise_loss"
        )
        _validate.integer(1, MAX_DIMENSION, dimension=numeric["dimension"])
        _validate.nonnegative(noise_loss=numeric["noise_loss"])
        for name in ("grid", "iterate_bound"):
            if numeric[name] is not None:
                _validate.positive(**{name: numeric[name]})
        _validate.integer(1, MAX_RUNS, runs=top["runs"])
        versions = top["versions"]
        if not isinstance(versions, dict):
            raise InvalidParameterError("versions must be a JSON object")
        return cls(
            mechanism=Mechanism.from_json(top["mechanism"]),
            epsilon=guarantee["epsilon"],
            delta=guarantee["delta"],
            mu=guarantee["mu"],
            analysis=_text(guarantee["analysis"], "analysis"),
            assumptions=tuple(
                Assumption(
                    **{
                        name: _text(value, name)
                        for name, value in _fields(
                            entry, "assumption", "name statement evidence"
                        ).items()
                    }
                )
                for entry in _items(top["assumptions"], "assumptions")
            ),
            noise_source=_validate.choice(
                NoiseSource, noise_source=top["noise_source"]
            ),
            numeric=NumericModel(**numeric),
            declarations=tuple(
                _text(entry, "declaration")
                for entry in _items(top["declarations"], "declarations")
            ),
            versions=tuple(
                (_text(name, "name"), _text(version, "version"))
                for name, version in versions.items()
            ),
            runs=top["runs"],
        )

    def dumps(self) -> str:
        """The JSON text."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"

    @classmethod
    def loads(cls, text: str) -> Certificate:
        """The certificate from its JSON text."""
        try:
            data = _json.parse(text)
        except ValueError as error:
            raise InvalidParameterError(f"not a JSON text: {error}") from None
        return cls.from_json(data)

    def text(self) -> str:
        """One page for a reviewer."""
        return page("PRIVACY CERTIFICATE", self.sections())

    def sections(self) -> list[Section]:
        """The page's sections: titles and points."""
        return _sections(self)


def certify(
    mechanism: Mechanism,
    *,
    delta: float,
    noise_source: NoiseSource,
    numeric: NumericModel,
    analysis: str = "best",
    declarations: tuple[str, ...] = (),
    runs: int = 1,
) -> Certificate:
    """The certificate of a run of the mechanism, or of several on the same rows.

    The guarantee is that of the mechanism with its noise divided by 1 + noise_loss
    (PRIVACY.md 10.2), at the smallest epsilon that the analysis proves for delta. A
    user seed is no noise to those who know it: such a run is never certified.
    """
    _validate.probability(delta=delta)
    profile = guarantee(accounted(mechanism, numeric, runs), analysis, runs)
    epsilon = profile.epsilon(delta)
    winner = profile
    if math.isfinite(epsilon):
        winner = profile.at(epsilon)
        epsilon = winner.epsilon(delta)
    certified = noise_source is NoiseSource.OS_ENTROPY and math.isfinite(epsilon)
    return Certificate(
        mechanism=mechanism,
        epsilon=epsilon if certified else None,
        delta=float(delta),
        mu=winner.mu if certified else None,
        analysis=winner.analysis,
        assumptions=winner.assumptions,
        noise_source=noise_source,
        numeric=numeric,
        declarations=declared(mechanism) + declarations,
        versions=_versions(),
        runs=runs,
    )


def accounted(mechanism: Mechanism, numeric: NumericModel, runs: int = 1) -> Mechanism:
    """The mechanism in real arithmetic whose guarantee the runs have together.

    R runs of a mu-GDP mechanism compose exactly to sqrt(R) mu. In the Gaussian analyses
    mu is proportional to 1/noise, so this is one run with its noise over sqrt(R).
    """
    _validate.integer(1, MAX_RUNS, runs=runs)
    return mechanism.with_noise(
        (1 - 1e-15) / (1 + numeric.noise_loss) / math.sqrt(runs)
    )


def guarantee(mechanism: Mechanism, analysis: str, runs: int) -> PrivacyProfile:
    """The profile of a mechanism that stands for `runs` runs (see `accounted`).

    Raises PrivacyAssumptionError where the analysis is not Gaussian and runs > 1.
    """
    profile = account(mechanism, analysis)
    if runs > 1 and not isinstance(profile.curve, GaussianCurve):
        raise PrivacyAssumptionError(
            f"{runs} runs compose exactly only where mu describes each of them, and "
            f"analysis {analysis!r} gives none",
            "choose epoch_end, composition or hidden_state",
        )
    return profile


def declared(mechanism: Mechanism) -> tuple[str, ...]:
    """What the user of a mechanism declares, and the software cannot check."""
    start = mechanism.start
    if isinstance(start, Given):
        return (
            PUBLIC_ROWS,
            f"The start point (norm at most {start.norm:g}) was made without private "
            "rows.",
        )
    return (PUBLIC_ROWS,)


def _versions() -> tuple[tuple[str, str], ...]:
    packages = ("dpbraid", "numpy", "scipy", "numba", "randomgen")
    return (
        *((name, metadata.version(name)) for name in packages),
        ("python", platform.python_version()),
    )


# -- the page ------------------------------------------------------------------------


def page(title: str, sections: list[Section]) -> str:
    """Sections as text."""
    lines = [title, ""]
    for heading, points in sections:
        lines.append(heading)
        lines += [
            fill(p, 88, initial_indent="  - ", subsequent_indent="    ") for p in points
        ]
        lines.append("")
    return "\n".join(lines)


def _sections(c: Certificate) -> list[Section]:
    m = c.mechanism
    if c.epsilon is None:
        statement = (
            "NOT CERTIFIED. The noise came from a seed that somebody knows: this run "
            "is reproducible, not private."
            if c.noise_source is NoiseSource.USER_SEED
            else "NOT CERTIFIED. The analysis gives no finite epsilon."
        )
    else:
        statement = f"({rounded_up(c.epsilon)}, {c.delta!r})-differential privacy"
        if c.mu is not None:
            statement += f"; in full, {rounded_up(c.mu)}-Gaussian differential privacy"
        statement += f", by the analysis '{c.analysis}'."
    private = [e for e in m.epochs if e.private_rows]
    return [
        (
            "1. Setting",
            [
                "Central model: one curator holds the private table and runs the "
                "software; the guarantee protects against anyone who sees the release."
            ],
        ),
        (
            "2. What is guaranteed for whom",
            [
                f"Data accesses covered: {_runs(c.runs)} of the mechanism below. "
                "Choosing its settings with the help of private rows, or running it "
                "again, is not covered.",
                f"Output: {RELEASED}",
                "Unit of privacy: one row of the private table, used at most once in "
                "an epoch. If one person contributes m rows, the guarantee for that "
                "person is weaker.",
                f"Adjacency: {ADJACENCY}",
            ],
        ),
        (
            "3. Accounting",
            [
                f"Guarantee: {statement}",
                *(f"{a.name}: {a.statement} [{a.evidence}]" for a in c.assumptions),
            ],
        ),
        (
            "4. The mechanism",
            [
                f"n = {m.n} private rows; {len(m.epochs)} epochs, {len(private)} of "
                f"them with private rows; batch size {m.batch_size}.",
                *(
                    f"{count} x: {e.private_rows} private rows, {e.public_rows} public "
                    f"rows, learning rate {e.learning_rate:g}, noise std "
                    f"{e.noise_std:g} ({e.placement.value})"
                    for count, e in m.runs()[:12]
                ),
                *(
                    [f"... {len(m.runs()) - 12} more kinds of epoch, in the file."]
                    if len(m.runs()) > 12
                    else []
                ),
                f"Loss {_words(m.loss)}; penalty {_words(m.penalty)}; order "
                f"{_words(m.order)}; clip norm {m.clip_norm}; row norm {m.row_norm}, "
                f"public rows {m.public_bound}.",
            ],
        ),
        ("5. Noise and arithmetic", [f"Noise: {c.noise_source.value}.", _numeric(c)]),
        ("6. Declared by the user, not checked by the software", [*c.declarations]),
        (
            "7. Verification",
            [
                "`dpbraid verify` recomputes the guarantee from the file alone.",
                "Software: "
                + ", ".join(f"{name} {version}" for name, version in c.versions),
            ],
        ),
    ]


def _runs(runs: int) -> str:
    return "one run" if runs == 1 else f"{runs} runs, composed exactly,"


def rounded_up(value: float) -> str:
    """Six digits, rounded up: what is printed never promises more than the file."""
    context = Context(prec=6, rounding=ROUND_CEILING)
    return f"{context.create_decimal_from_float(value).normalize(context):f}"


def _numeric(c: Certificate) -> str:
    if c.numeric.grid is None:
        return (
            "Arithmetic: the guarantee is proved for real numbers; the run used "
            "float64 with noise on every step."
        )
    return (
        f"Arithmetic: released coordinates are multiples of {c.numeric.grid:g}, noise "
        "is the exactly rounded Gaussian; rounding is paid for by accounting with the "
        f"noise divided by 1 + {c.numeric.noise_loss:.3g}."
    )


def _words(part: Variant) -> str:
    return _in_words(part.to_json())


def _in_words(values: dict[str, Any]) -> str:
    """``kind(name=value, ..)``, for the parts of a part too."""
    inside = ", ".join(
        f"{name}={_in_words(value) if isinstance(value, dict) else value}"
        for name, value in values.items()
        if name != "kind"
    )
    return f"{values['kind']}({inside})" if inside else str(values["kind"])
