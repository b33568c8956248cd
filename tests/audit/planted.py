"""Broken engines and accountants: every bug that the auditor must find.

Each is planted for as long as its context lasts. None of this is in the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dpbraid as db
import dpbraid.engine.once
import dpbraid.privacy.steps
from dpbraid.audit import attack
from dpbraid.engine import noise
from dpbraid.engine.blocked import Blocked
from dpbraid.engine.columns import Columns, Table
from dpbraid.mechanism import Mechanism
from dpbraid.privacy.registry import ANALYSES
from dpbraid.privacy.steps import Rate
from dpbraid.release import Release

Array = NDArray[Any]
Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Bug:
    """A bug, and the mechanism on which the auditor finds it."""

    name: str
    plant: Plant
    mechanism: Mechanism
    analysis: str
    found_by: str
    runs: int = 400

    @contextmanager
    def planted(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            yield


# -- broken engines --------------------------------------------------------------------


def noise_halved(patch: pytest.MonkeyPatch) -> None:
    whole = Columns.of

    def half(mechanisms: list[Mechanism]) -> Columns:
        columns = whole(mechanisms)
        return replace(columns, noise_stds=0.5 * columns.noise_stds)

    patch.setattr(Columns, "of", half)


def no_noise_on_public_steps(patch: pytest.MonkeyPatch) -> None:
    advance = Blocked._advance

    def quiet(self: Any, table: Table, *rest: Any) -> None:
        *others, noisy = rest
        advance(self, table, *others, noisy and table is not self._public)

    patch.setattr(Blocked, "_advance", quiet)


class _Spent:
    """Noise of an epoch's end that has been added already."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.noise = engine, engine._noise

    def end(self, *_: Any) -> None:
        self.engine._noise = self.noise


def noise_before_the_last_private_step(patch: pytest.MonkeyPatch) -> None:
    advance = Blocked._advance

    def early(
        self: Any, table: Table, rows: Array, eta: Array, scales: Array, noisy: bool
    ) -> None:
        if table is not self._private or noisy or not np.any(scales > 0):
            advance(self, table, rows, eta, scales, noisy)
            return
        b = self._batch
        advance(self, table, rows[:-b], eta, scales, noisy)
        self._noise.end(self._X, eta * b, scales / (eta * b))
        advance(self, table, rows[-b:], eta, scales, noisy)
        self._noise = _Spent(self)

    patch.setattr(Blocked, "_advance", early)


def clip_of_the_batch_mean(patch: pytest.MonkeyPatch) -> None:
    def together(
        self: Any, table: Table, rows: Array, eta: Array, *_: Any, **__: Any
    ) -> None:
        m, b, x = self._columns.shared, self._batch, self._X[:, 0]
        for first in range(0, len(rows), b):
            batch = rows[first : first + b]
            mean = m.loss.gradients(x, table.X[batch], table.y[batch], None).sum(0) / b
            mean *= min(1.0, m.clip_norm / max(float(np.linalg.norm(mean)), 1e-300))
            x -= eta[0] * b * mean

    patch.setattr(Blocked, "_advance", together)


class _Replayed:
    """Every epoch's noise from the same place of the stream."""

    def __init__(self, rng: np.random.Generator, once: noise.Noise) -> None:
        self.rng, self.once = rng, once
        self.state = rng.bit_generator.state

    def end(self, *to: Any) -> None:
        self.rng.bit_generator.state = self.state
        self.once.end(*to)


def noise_of_two_epochs_the_same(patch: pytest.MonkeyPatch) -> None:
    fresh = dpbraid.engine.once._noise
    patch.setattr(
        dpbraid.engine.once,
        "_noise",
        lambda rng, numeric: _Replayed(rng, fresh(rng, numeric)),
    )


def an_epoch_iterate_leaks(patch: pytest.MonkeyPatch) -> None:
    epochs, run = Blocked.epochs, attack.run
    seen: list[Array] = []

    def watched(self: Any, order_rng: np.random.Generator) -> Iterator[None]:
        for _ in epochs(self, order_rng):
            seen.append(self._X[:, 0].copy())
            yield

    def leaky(*args: Any, **kwargs: Any) -> Release:
        release = run(*args, **kwargs)
        return replace(release, x=np.concatenate(seen[-2:]))

    patch.setattr(Blocked, "epochs", watched)
    patch.setattr(attack, "run", leaky)


def seed_reused(patch: pytest.MonkeyPatch) -> None:
    seeded = noise.seeded
    patch.setattr(noise, "seeded", lambda _: seeded(0))


def one_private_row_too_many(patch: pytest.MonkeyPatch) -> None:
    walk = Mechanism.walk

    def farther(
        self: Mechanism, public_rows: int, rng: np.random.Generator
    ) -> Iterator[tuple[db.Epoch, Array, Array]]:
        private = self.order.permutations(self.n, rng)
        for epoch, _, public in walk(self, public_rows, rng):
            yield epoch, next(private)[: epoch.private_rows + 1], public[1:]

    patch.setattr(Mechanism, "walk", farther)


class _Narrow(Blocked):
    """The engine in single precision."""

    def __init__(
        self,
        columns: Columns,
        private: Table,
        public: Any,
        X: Array,
        *rest: Any,
        **more: Any,
    ) -> None:
        self._wide = X
        super().__init__(columns, _narrow(private), public, _single(X), *rest, **more)

    def epochs(self, order_rng: np.random.Generator) -> Iterator[None]:
        yield from super().epochs(order_rng)
        self._wide[...] = self._X


def _single(X: Array) -> Array:
    return X.astype(np.float32)


def _narrow(table: Table) -> Table:
    return replace(table, X=_single(table.X))


def state_in_single_precision(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dpbraid.engine.once, "Blocked", _Narrow)


# -- broken accountants ----------------------------------------------------------------


def any_learning_rate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dpbraid.privacy.steps, "_rate", lambda *_: Rate())


def every_order_a_secret(patch: pytest.MonkeyPatch) -> None:
    analyse = ANALYSES["secret_order"]

    def trusting(mechanism: Mechanism) -> Any:
        return analyse(replace(mechanism, order=db.Reshuffle()))

    patch.setitem(ANALYSES, "secret_order", trusting)


def add_or_remove(patch: pytest.MonkeyPatch) -> None:
    whole = Mechanism.sensitivity.fget  # type: ignore[attr-defined]
    patch.setattr(Mechanism, "sensitivity", property(lambda m: whole(m) / 2))


def one_public_step_too_many(patch: pytest.MonkeyPatch) -> None:
    read = dpbraid.privacy.steps._read_epoch

    def more(*args: Any) -> Any:
        epoch = read(*args)
        return replace(epoch, public_steps=epoch.public_steps + 1)

    patch.setattr(dpbraid.privacy.steps, "_read_epoch", more)


# -- where they are found --------------------------------------------------------------

_IN_ORDER: dict[str, Any] = {"order": db.Incremental(), "row_norm": 1.0}
_CLIPPED: dict[str, Any] = {
    **_IN_ORDER,
    "loss": db.Squared(),
    "clip_norm": 1.0,
    "learning_rate": 0.1,
}
_MEAN: dict[str, Any] = {**_IN_ORDER, "loss": db.Mean()}
_END: dict[str, Any] = {"placement": "epoch_end"}

BUGS = (
    Bug(
        "noise halved",
        noise_halved,
        db.dp(3, 2, noise_std=2.0, **_CLIPPED, **_END),
        "epoch_end",
        "the tables are told apart twice as well as claimed",
        runs=1000,
    ),
    Bug(
        "no noise on public steps",
        no_noise_on_public_steps,
        db.interleaved(6, 1, private_fraction=0.2, noise_std=0.5, **_CLIPPED),
        "hidden_state",
        "one private step before five public ones, whose noise should hide it",
        runs=1000,
    ),
    Bug(
        "noise before instead of after the last private step",
        noise_before_the_last_private_step,
        db.dp(2, 1, noise_std=1.5, learning_rate=1.0, **_MEAN, **_END),
        "epoch_end",
        "a mean at learning rate 1, whose last step forgets all noise before it",
    ),
    Bug(
        "learning rate over 2/L accepted",
        any_learning_rate,
        db.dp(6, 1, noise_std=2.0, learning_rate=2.5, **_MEAN, **_END),
        "epoch_end",
        "the row comes first, and steps that expand carry its trace to the noise",
    ),
    Bug(
        "clip applied to the batch mean",
        clip_of_the_batch_mean,
        db.dp(8, 1, noise_std=0.4, batch_size=4, **_CLIPPED, **_END),
        "epoch_end",
        "batches of 4: one row moves its batch by the whole clip norm",
    ),
    Bug(
        "the same noise in two epochs",
        noise_of_two_epochs_the_same,
        db.Mechanism(
            n=2,
            epochs=tuple(
                db.Epoch(rows, 0, 2.0, 1.0, db.Placement.EPOCH_END) for rows in (2, 1)
            ),
            **_MEAN,
        ),
        "hidden_state",
        "steps that reflect, so that the second noise takes the first away",
    ),
    Bug(
        "order no secret, accounted as a secret",
        every_order_a_secret,
        db.interleaved(
            10,
            4,
            private_fraction=0.1,
            noise_std=3.0,
            **{**_CLIPPED, "order": db.Reshuffle(secret=False)},
            **_END,
        ),
        "secret_order",
        "the order of the table, where the row is used in every epoch",
        runs=1000,
    ),
    Bug(
        "an epoch iterate released under hidden_state",
        an_epoch_iterate_leaks,
        db.dp(2, 2, noise_std=1.3, learning_rate=1.0, **_MEAN),
        "hidden_state",
        "a mean at learning rate 1, seen in a direction learned from the release",
        runs=3000,
    ),
    Bug(
        "replace-one accounted as add-or-remove",
        add_or_remove,
        db.dp(3, 2, noise_std=1.0, **_CLIPPED, **_END),
        "epoch_end",
        "opposite rows push twice as far apart as a row and none",
        runs=1000,
    ),
    Bug(
        "seed reused",
        seed_reused,
        db.dp(3, 2, noise_std=2.0, **_CLIPPED),
        "hidden_state",
        "any pair: two runs on one table are the same",
    ),
    Bug(
        "state in single precision",
        state_in_single_precision,
        db.dp(
            1,
            1,
            noise_std=40.0,
            start=db.Given(2.0**30),
            **{**_CLIPPED, "clip_norm": 33.0, "learning_rate": 1.0},
            **_END,
        ),
        "epoch_end",
        "a start far away, where rounding doubles the row's step",
        runs=1000,
    ),
    Bug(
        "n_d off by one in the accountant",
        one_public_step_too_many,
        db.interleaved(
            4, 1, private_fraction=0.75, noise_std=0.3, learning_rate=0.5, **_MEAN
        ),
        "hidden_state",
        "an unclipped mean, exactly solvable, hidden by one step less than is counted",
        runs=1000,
    ),
    Bug(
        "n_d off by one in the engine",
        one_private_row_too_many,
        db.interleaved(
            4, 1, private_fraction=0.75, noise_std=0.6, learning_rate=0.5, **_MEAN
        ),
        "hidden_state",
        "the row after the private ones, which nobody should see",
        runs=1000,
    ),
)
