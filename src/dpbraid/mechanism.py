"""The Mechanism: who touches which row when, with what noise. No data in it.

One frozen object describes a whole run of the generalized shuffled gradient framework
(paper, Algorithm 1). The engine runs it, the accountant reads it, the certificate
prints it; nothing else decides noise, order or step size.

In epoch k, with learning rate eta, batch size b and noise std sigma:

- n_d = `private_rows` rows of the private table, in the epoch's order, b at a time;
- then `public_rows` rows of the public table from `public_start` on, b at a time;
- each step is ``x <- x - eta * (g + rho)`` with g the sum of the (clipped) gradients of
  its rows divided by b, also where the last batch is short;
- `placement` says which steps have rho ~ N(0, sigma^2 I): every step of the epoch
  ("every_step", the paper), or the last private step alone ("epoch_end");
- at the end, one proximal step of the penalty with step eta * rows / b, where rows
  counts all rows of the epoch: the paper's eta * n, and eta for full batches.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, pairwise
from typing import Any, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from dpbraid import _json, _validate
from dpbraid._validate import InvalidParameterError, shown
from dpbraid.losses import Loss
from dpbraid.orders import Draws, Incremental, Order, Reshuffle
from dpbraid.penalties import NoPenalty, Penalty
from dpbraid.starts import Start, Zeros

SCHEMA = "dpbraid.mechanism/1"
MAX_EPOCHS = 1_000_000
MAX_ROWS = 2**63 - 1  # rows are numbered in int64

RowNumbers = NDArray[np.int64]
Rates = float | Sequence[float] | NDArray[np.floating]  # one, or one an epoch


class Placement(StrEnum):
    """Where in an epoch the noise goes."""

    EVERY_STEP = "every_step"
    EPOCH_END = "epoch_end"

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Epoch:
    """One pass: how many rows, at which learning rate, with what noise.

    noise_std is in gradient units: a noisy step moves x by learning_rate * noise_std
    per coordinate. Rows count table rows; at batch size 1 they are the steps.
    """

    private_rows: int
    public_rows: int
    learning_rate: float
    noise_std: float
    placement: Placement = Placement.EVERY_STEP
    public_start: int = 0

    def __post_init__(self) -> None:
        _validate.integer(
            0,
            private_rows=self.private_rows,
            public_rows=self.public_rows,
            public_start=self.public_start,
        )
        _validate.positive(learning_rate=self.learning_rate)
        _validate.nonnegative(noise_std=self.noise_std)
        placement = _validate.choice(Placement, placement=self.placement)
        object.__setattr__(self, "placement", placement)
        _validate.plain(self)
        if self.rows + self.public_start > MAX_ROWS:
            raise InvalidParameterError(
                f"private_rows + public_rows + public_start must be at most {MAX_ROWS} "
                f"in every epoch, got {shown(self.rows + self.public_start)}"
            )
        if self.rows == 0:
            raise InvalidParameterError(
                "private_rows + public_rows must be >= 1 in every epoch, got 0"
            )
        if (
            placement is Placement.EPOCH_END
            and self.private_rows == 0
            and self.noise_std > 0
        ):
            raise InvalidParameterError(
                "noise_std must be 0 in an epoch without private rows where placement "
                f"is 'epoch_end', got {self.noise_std!r}"
            )

    @property
    def rows(self) -> int:
        """All rows of the epoch, private and public."""
        return self.private_rows + self.public_rows


@dataclass(frozen=True)
class Mechanism:
    """The whole randomised algorithm, without data.

    n: number of private rows (public knowledge). clip_norm: each row's gradient is
    scaled down to this Euclidean norm, private and public alike; None for no clipping.
    row_norm, public_row_norm: the bounds that `Rows` enforces on the two tables
    (public_row_norm None: the same as row_norm); without them nothing can be said
    about smoothness. order, public_order: how each epoch walks through the tables.
    """

    n: int
    epochs: tuple[Epoch, ...]
    loss: Loss
    penalty: Penalty = NoPenalty()
    order: Order = Reshuffle()
    clip_norm: float | None = None
    batch_size: int = 1
    row_norm: float | None = None
    public_row_norm: float | None = None
    public_order: Order = Incremental()
    start: Start = Zeros()

    def __post_init__(self) -> None:
        _validate.integer(1, MAX_ROWS, n=self.n)
        _validate.integer(1, self.n, batch_size=self.batch_size)
        for name in ("clip_norm", "row_norm", "public_row_norm"):
            value = getattr(self, name)
            if value is not None:
                _validate.positive(**{name: value})
        for name, family in _FAMILIES.items():
            if not isinstance(getattr(self, name), family):
                article = "an" if family is Order else "a"
                raise InvalidParameterError(
                    f"{name} must be {article} {family.__name__}, one of "
                    f"{', '.join(family.kinds())}, got {shown(getattr(self, name))}"
                )
        if not isinstance(self.epochs, Iterable):
            raise InvalidParameterError(
                f"epochs must hold Epoch objects, got {shown(self.epochs)}"
            )
        object.__setattr__(self, "epochs", tuple(self.epochs))
        if not 1 <= len(self.epochs) <= MAX_EPOCHS:
            raise InvalidParameterError(
                f"epochs must hold 1 to {MAX_EPOCHS} Epochs, got {len(self.epochs)}"
            )
        for k, epoch in enumerate(self.epochs, start=1):
            if not isinstance(epoch, Epoch):
                raise InvalidParameterError(
                    f"epochs must hold Epoch objects, got {shown(epoch)} as number {k}"
                )
            if epoch.private_rows > self.n:
                raise InvalidParameterError(
                    f"private_rows must be an integer in [0, n={self.n}], got "
                    f"{epoch.private_rows} in epoch {k}"
                )
        _validate.plain(self)

    # -- what the engine and the accountant ask -----------------------------------

    def private_steps(self, epoch: Epoch) -> int:
        """Number of private steps: ceil(private_rows / batch_size)."""
        return -(-epoch.private_rows // self.batch_size)

    def public_steps(self, epoch: Epoch) -> int:
        """Number of public steps: ceil(public_rows / batch_size)."""
        return -(-epoch.public_rows // self.batch_size)

    def prox_step(self, epoch: Epoch) -> float:
        """Step of the proximal step at the end of the epoch, eta * rows / b."""
        return epoch.learning_rate * epoch.rows / self.batch_size

    @property
    def public_bound(self) -> float | None:
        """The bound on public rows, after the default."""
        return self.row_norm if self.public_row_norm is None else self.public_row_norm

    @property
    def sensitivity(self) -> float | None:
        """Largest distance of the gradients of two possible private rows at one x.

        2 C where gradients are clipped at C, else the bound of the loss for rows of
        norm row_norm; None where nothing bounds it. A clip norm above the gradients
        that the loss can have is taken at its word: it costs noise.
        """
        if self.clip_norm is not None:
            return 2 * self.clip_norm
        bound = math.inf if self.row_norm is None else self.row_norm
        sensitivity = self.loss.sensitivity(bound)
        return (
            sensitivity if sensitivity is not None and sensitivity < math.inf else None
        )

    @property
    def public_rows(self) -> int:
        """Number of rows that the public table must have at least."""
        return max(
            e.public_start + e.public_rows if e.public_rows else 0 for e in self.epochs
        )

    def walk(
        self, public_rows: int, rng: Draws
    ) -> Iterator[tuple[Epoch, RowNumbers, RowNumbers]]:
        """For each epoch, the private and the public row numbers in order of use.

        public_rows: number of rows of the public table. Both engines walk this way.
        """
        private = self.order.permutations(self.n, rng)
        public = self.public_order.permutations(public_rows, rng)
        for epoch in self.epochs:
            stop = epoch.public_start + epoch.public_rows
            yield (
                epoch,
                next(private)[: epoch.private_rows],
                next(public)[epoch.public_start : stop],
            )

    def with_noise(self, factor: float) -> Mechanism:
        """The same mechanism with every noise_std multiplied by `factor`."""
        _validate.nonnegative(factor=factor)
        scaled: dict[Epoch, Epoch] = {}
        epochs: list[Epoch] = []
        for count, epoch in self.runs():
            if epoch not in scaled:
                scaled[epoch] = replace(epoch, noise_std=epoch.noise_std * factor)
            epochs += [scaled[epoch]] * count
        return replace(self, epochs=tuple(epochs))

    # -- printing and files ---------------------------------------------------------

    def runs(self) -> list[tuple[int, Epoch]]:
        """The epochs as (how often in a row, epoch)."""
        return [(len(list(group)), epoch) for epoch, group in groupby(self.epochs)]

    def __repr__(self) -> str:
        fields = {f.name: repr(getattr(self, f.name)) for f in dataclasses.fields(self)}
        fields["epochs"] = " + ".join(f"{count} * {e!r}" for count, e in self.runs())
        inside = ",\n    ".join(f"{name}={text}" for name, text in fields.items())
        return f"Mechanism(\n    {inside},\n)"

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; `from_json` gives an equal mechanism back."""
        data: dict[str, Any] = {"schema": SCHEMA}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            data[field.name] = value.to_json() if field.name in _FAMILIES else value
        data["epochs"] = [
            {"repeat": count, **dataclasses.asdict(epoch)}
            for count, epoch in self.runs()
        ]
        return data

    @classmethod
    def from_json(cls, data: Any) -> Mechanism:
        """The mechanism that `to_json` wrote; unknown or missing fields are errors."""
        names = {f.name for f in dataclasses.fields(cls)}
        data = _object(data, "mechanism", {"schema"} | names)
        if data["schema"] != SCHEMA:
            raise InvalidParameterError(
                f"schema must be {SCHEMA!r}, got {shown(data['schema'])}"
            )
        fields = {name: data[name] for name in names}
        for name, family in _FAMILIES.items():
            fields[name] = family.from_json(fields[name])
        if not isinstance(data["epochs"], list):
            raise InvalidParameterError("epochs must be a list of objects")
        epoch_names = {"repeat"} | {f.name for f in dataclasses.fields(Epoch)}
        epochs: list[Epoch] = []
        for entry in data["epochs"]:
            given = dict(_object(entry, "epoch", epoch_names))
            repeat = given.pop("repeat")
            _validate.integer(1, MAX_EPOCHS - len(epochs), repeat=repeat)
            epochs += [Epoch(**given)] * repeat
        fields["epochs"] = tuple(epochs)
        return cls(**fields)

    def dumps(self) -> str:
        """The JSON text."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"

    @classmethod
    def loads(cls, text: str) -> Mechanism:
        """The mechanism from its JSON text."""
        try:
            data = _json.parse(text)
        except ValueError as error:
            raise InvalidParameterError(f"not a JSON text: {error}") from None
        return cls.from_json(data)


_FAMILIES: dict[str, Any] = {
    "loss": Loss,
    "penalty": Penalty,
    "order": Order,
    "public_order": Order,
    "start": Start,
}


def _object(data: Any, name: str, names: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidParameterError(f"{name} must be a JSON object")
    if set(data) != names:
        raise InvalidParameterError(
            f"{name} takes exactly the fields {sorted(names)}, got "
            f"{sorted(map(str, data))}"
        )
    return data


# -- the named schedules -----------------------------------------------------------
#
# Each is a plain function that returns a Mechanism; any other schedule is a tuple of
# Epochs. p = private_fraction is the share of gradient steps on private rows; S = pK
# and n_d = pn are rounded to the nearest integer, halves up. noise_std is the noise of
# every epoch that uses private rows; `dpbraid.calibrate` replaces it.


class Common(TypedDict, total=False):
    """The fields of Mechanism that every schedule passes on as they are."""

    loss: Required[Loss]
    penalty: Penalty
    order: Order
    clip_norm: float | None
    batch_size: int
    row_norm: float | None
    public_row_norm: float | None
    public_order: Order
    start: Start


def dp(
    n: int,
    epochs: int,
    *,
    learning_rate: Rates,
    noise_std: float = 1.0,
    placement: Placement | str = Placement.EVERY_STEP,
    **common: Unpack[Common],
) -> Mechanism:
    """DP-ShuffleG: all n private rows in each of K epochs, no public row."""
    return _schedule([(n, 0)], n, epochs, learning_rate, noise_std, placement, common)


def interleaved(
    n: int,
    epochs: int,
    *,
    private_fraction: float,
    learning_rate: Rates,
    noise_std: float = 1.0,
    placement: Placement | str = Placement.EVERY_STEP,
    **common: Unpack[Common],
) -> Mechanism:
    """Interleaved-ShuffleG: in each epoch n_d = pn private, then n - n_d public rows.

    With placement "every_step" the public steps are noisy too (paper, Algorithm
    "Interleaved"): their noise hides the private rows before them.
    """
    _validate.integer(1, MAX_ROWS, n=n)
    private, public = _split(n, private_fraction)
    pattern = [(private, public)]
    return _schedule(pattern, n, epochs, learning_rate, noise_std, placement, common)


def priv_pub(
    n: int,
    epochs: int,
    *,
    private_fraction: float,
    learning_rate: Rates,
    noise_std: float = 1.0,
    placement: Placement | str = Placement.EVERY_STEP,
    **common: Unpack[Common],
) -> Mechanism:
    """Priv-Pub-ShuffleG: S = pK noisy private epochs, then K - S public ones."""
    private, public = _split_epochs(epochs, private_fraction)
    pattern = [(n, 0)] * private + [(0, n)] * public
    return _schedule(pattern, n, epochs, learning_rate, noise_std, placement, common)


def pub_priv(
    n: int,
    epochs: int,
    *,
    private_fraction: float,
    learning_rate: Rates,
    noise_std: float = 1.0,
    placement: Placement | str = Placement.EVERY_STEP,
    **common: Unpack[Common],
) -> Mechanism:
    """Pub-Priv-ShuffleG: K - S public epochs, then S = pK noisy private ones."""
    private, public = _split_epochs(epochs, private_fraction)
    pattern = [(0, n)] * public + [(n, 0)] * private
    return _schedule(pattern, n, epochs, learning_rate, noise_std, placement, common)


def alternating(
    n: int,
    epochs: int,
    *,
    private_fraction: float = 0.5,
    learning_rate: Rates,
    noise_std: float = 1.0,
    placement: Placement | str = Placement.EVERY_STEP,
    **common: Unpack[Common],
) -> Mechanism:
    """Interleaved-Epochs: S = pK private epochs, spread evenly, a private one first."""
    private, public = _split_epochs(epochs, private_fraction)
    total = private + public
    # epoch k is private where ceil(k S / K) takes a step
    steps = [-(-k * private // total) for k in range(total + 1)]
    pattern = [
        (n, 0) if after > before else (0, n) for before, after in pairwise(steps)
    ]
    return _schedule(pattern, n, epochs, learning_rate, noise_std, placement, common)


def public_only(
    n: int,
    epochs: int,
    *,
    learning_rate: Rates,
    **common: Unpack[Common],
) -> Mechanism:
    """Public Only: n public rows in each epoch, no private row and no noise."""
    return _schedule(
        [(0, n)], n, epochs, learning_rate, 0.0, Placement.EVERY_STEP, common
    )


def nonprivate(
    n: int,
    epochs: int,
    *,
    learning_rate: Rates,
    **common: Unpack[Common],
) -> Mechanism:
    """The shuffled gradient method on the private rows without noise: not private."""
    return _schedule(
        [(n, 0)], n, epochs, learning_rate, 0.0, Placement.EVERY_STEP, common
    )


def nearest(value: float) -> int:
    """The nearest integer, halves up."""
    return math.floor(value + 0.5)


def _split(count: int, private_fraction: float) -> tuple[int, int]:
    """How many of so many rows or epochs are private, and how many public."""
    _validate.in_range(0, 1, private_fraction=private_fraction)
    count = int(count)
    private = min(count, nearest(float(private_fraction) * count))
    return private, count - private


def _split_epochs(epochs: int, private_fraction: float) -> tuple[int, int]:
    _validate.integer(1, MAX_EPOCHS, epochs=epochs)
    return _split(epochs, private_fraction)


def _schedule(
    pattern: list[tuple[int, int]],
    n: int,
    epochs: int,
    learning_rate: Rates,
    noise_std: float,
    placement: Placement | str,
    common: Common,
) -> Mechanism:
    """K epochs with the (private, public) row counts of the pattern; noise on private.

    A pattern of one entry holds for every epoch.
    """
    _validate.integer(1, MAX_ROWS, n=n)
    _validate.integer(1, MAX_EPOCHS, epochs=epochs)
    epochs = int(epochs)
    given: Any = learning_rate
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, Sequence) and not isinstance(given, str):
        rates = list(given)
    else:
        rates = [given] * epochs
    if len(rates) != epochs:
        raise InvalidParameterError(
            f"learning_rate must be one number or {epochs} numbers (one an epoch), got "
            f"{len(rates)}"
        )
    if len(pattern) == 1:
        pattern = pattern * epochs
    _validate.nonnegative(noise_std=noise_std)
    where = _validate.choice(Placement, placement=placement)
    return Mechanism(
        n=n,
        epochs=tuple(
            Epoch(private, public, rate, noise_std if private else 0.0, where)
            for (private, public), rate in zip(pattern, rates, strict=True)
        ),
        **common,
    )
