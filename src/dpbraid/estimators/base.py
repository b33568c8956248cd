"""What all estimators share: from two tables to a charge, a run and a certificate."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dpbraid import _validate, mechanism
from dpbraid._validate import InvalidParameterError
from dpbraid.engine import inputs
from dpbraid.estimators import defaults, tables
from dpbraid.estimators.tables import NonFinite
from dpbraid.estimators.transform import FittedTransform, PublicTransform
from dpbraid.losses import Loss, Mean
from dpbraid.mechanism import Mechanism, Placement
from dpbraid.numeric import numeric_model
from dpbraid.orders import Incremental, Order, Reshuffle, ShuffleOnce
from dpbraid.penalties import (
    ElasticNet,
    FreeLast,
    Lasso,
    NoPenalty,
    Penalty,
    Ridge,
)
from dpbraid.privacy import calibrate, gaussian_mu
from dpbraid.privacy.certificate import Certificate, accounted, certify, guarantee
from dpbraid.release import NoiseSource
from dpbraid.rows import Rows
from dpbraid.starts import Given, Zeros

Array = NDArray[np.float64]
Charge = Callable[[Certificate], None]
Progress = Callable[[int, int], None]

SCHEDULES = ("dp", "interleaved", "priv_pub", "pub_priv", "alternating")
ORDERS: dict[str, Order] = {
    "incremental": Incremental(),
    "shuffle_once": ShuffleOnce(),
    "reshuffle": Reshuffle(),
}
# Analyses whose guarantee is one number mu, so that runs compose exactly.
GAUSSIAN = ("epoch_end", "composition", "hidden_state")


@dataclass(frozen=True, eq=False)
class Prepared:
    """Two tables, ready to become Rows.

    X: features before the bound; whole: rows that are no zero rows; both of the private
    table. X_public: None without public rows. declarations: for the certificate.
    """

    X: Array
    whole: NDArray[np.bool_]
    X_public: Array | None
    transform: FittedTransform | None
    row_norm: float
    declarations: tuple[str, ...]

    def only(self, whole: NDArray[np.bool_]) -> Prepared:
        """With zero rows for the private rows that are not `whole`."""
        if whole.all():
            return self
        return replace(self, X=np.where(whole[:, None], self.X, 0.0), whole=whole)


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators; see `PrivateLogisticRegression` for the parameters."""

    epsilon: float = 1.0
    delta: float = 1e-6
    row_norm: float | None = None
    clip_norm: float | None = None
    schedule: str = "dp"
    private_fraction: float = 0.5
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    order: str | Order = "reshuffle"
    noise_placement: str = "epoch_end"
    analysis: str = "best"
    start: str | None = None
    public_transform: PublicTransform | None = None
    non_finite: str = "refuse"
    random_state: int | None = None

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss; refuses parameters that make none."""

    @abstractmethod
    def _penalty(self, n: int, row_norm: float) -> Penalty:
        """The penalty on the mean loss of n such rows, without the intercept."""

    @property
    def _with_intercept(self) -> bool:
        intercept: bool = getattr(self, "fit_intercept", False)
        return intercept

    # -- the way from tables to a release ----------------------------------------------

    def _check_parameters(self) -> None:
        """Refuse parameters before any row is looked at."""
        _validate.positive(epsilon=self.epsilon)
        _validate.probability(delta=self.delta)
        for name in ("row_norm", "clip_norm", "learning_rate"):
            if getattr(self, name) is not None:
                _validate.positive(**{name: getattr(self, name)})
        for name in ("epochs", "batch_size"):
            if getattr(self, name) is not None:
                _validate.integer(1, **{name: getattr(self, name)})
        if self.schedule not in SCHEDULES:
            raise InvalidParameterError(
                f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}"
            )
        _validate.in_range(0, 1, private_fraction=self.private_fraction)
        _validate.choice(Placement, noise_placement=self.noise_placement)
        _validate.choice(NonFinite, non_finite=self.non_finite)
        if self.start not in (None, "zeros", "public"):
            raise InvalidParameterError(
                f"start must be 'zeros', 'public' or None, got {self.start!r}"
            )
        self._order()
        if self.random_state is not None:
            _validate.integer(0, random_state=self.random_state)
        if not isinstance(self.public_transform, PublicTransform | None):
            raise InvalidParameterError(
                "public_transform must be a PublicTransform or None, got "
                f"{self.public_transform!r}"
            )
        _validate.boolean(fit_intercept=self._with_intercept)
        self._loss()
        self._penalty(1, 1.0)

    def _order(self) -> Order:
        if isinstance(self.order, Order):
            return self.order
        if self.order not in ORDERS:
            raise InvalidParameterError(
                f"order must be one of {', '.join(ORDERS)} or an Order, "
                f"got {self.order!r}"
            )
        return ORDERS[self.order]

    def _prepare(self, X: Any, X_public: Any) -> Prepared:
        """Checks and transforms of both feature tables; nothing is released here."""
        features, whole = tables.private_features(X, NonFinite(self.non_finite))
        validate_data(self, X, skip_check_array=True)  # column names and their number
        declarations: tuple[str, ...] = ()
        public = transform = None
        if X_public is not None:
            public = tables.public_features(X_public, features.shape[1])
        if self.public_transform is not None:
            if public is None:
                raise InvalidParameterError(
                    "public_transform needs X_public: it is fitted on public rows"
                )
            transform = self.public_transform.fitted(public)
            public = transform.transform(public)
            features, whole = tables.transformed(transform, features, whole)
            declarations += (_transform_words(transform),)
        bound, words = self._row_norm(public)
        return Prepared(
            features, whole, public, transform, bound, (*declarations, words)
        )

    def _row_norm(self, public: Array | None) -> tuple[float, str]:
        if self.row_norm is not None:
            return float(self.row_norm), "The row norm was given by the user."
        if public is None:
            raise InvalidParameterError(
                "the row norm is unknown: give row_norm, a bound on the Euclidean norm "
                "of rows that is known without the private rows (longer rows are "
                "scaled down to it), or public rows"
            )
        largest = float(np.linalg.norm(public, axis=1).max())
        if largest == 0:
            raise InvalidParameterError("X_public holds zeros alone: give row_norm")
        return largest, "The row norm is the largest of the public rows."

    def _rows(
        self,
        X: Array,
        whole: Any,
        y: Array | None,
        norm: float,
        label_bound: float | None = None,
    ) -> Rows:
        """Bounded rows with the intercept's feature; zero rows stay zero."""
        if not self._with_intercept:
            return Rows.bounded(X, y, row_norm=norm, label_bound=label_bound)
        bounded = Rows.bounded(X, row_norm=norm).X
        ones = np.asarray(whole, dtype=np.float64)[:, None]
        extended = np.concatenate([bounded, ones], axis=1)
        del bounded
        # a row with the intercept's feature 1 has norm sqrt(R^2 + 1)
        return Rows.bounded(
            extended, y, row_norm=math.hypot(norm, 1.0), label_bound=label_bound
        )

    def _mechanism(
        self, private: Rows, public: list[Rows] | None, start: Array | None, runs: int
    ) -> Mechanism:
        """The mechanism of one run, its noise not yet calibrated."""
        n, d = private.X.shape
        loss = self._loss()
        assert private.row_norm is not None
        placement = _validate.choice(Placement, noise_placement=self.noise_placement)
        facts = defaults.Facts(
            n=n,
            dimension=d,
            mu=gaussian_mu(self.epsilon, self.delta) / math.sqrt(runs),
            loss=loss,
            row_norm=private.row_norm,
            label_bound=private.label_bound,
            public=(
                None
                if public is None
                else defaults.PublicFacts.of(
                    loss, public[0], np.zeros(d) if start is None else start
                )
            ),
            one_step=placement is Placement.EPOCH_END and self.schedule == "dp",
        )
        if self.batch_size is not None:
            _validate.integer(1, n, batch_size=self.batch_size)
        plan = defaults.plan(
            facts,
            clip=self.clip_norm,
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            batch_size=self.batch_size,
        )
        fraction = (
            {} if self.schedule == "dp" else {"private_fraction": self.private_fraction}
        )
        made: Mechanism = getattr(mechanism, self.schedule)(
            n,
            len(plan.noise),
            learning_rate=plan.learning_rate,
            placement=placement,
            loss=loss,
            penalty=self._full_penalty(n, private.row_norm),
            order=self._order(),
            clip_norm=plan.clip_norm,
            batch_size=plan.batch_size,
            row_norm=private.row_norm,
            start=Zeros() if start is None else Given(_norm_above(start)),
            **fraction,
        )
        if len(set(plan.noise)) == 1:
            return made
        epochs = tuple(
            replace(epoch, noise_std=epoch.noise_std * noise)
            for epoch, noise in zip(made.epochs, plan.noise, strict=True)
        )
        return replace(made, epochs=epochs)

    def _full_penalty(self, n: int, row_norm: float) -> Penalty:
        penalty = self._penalty(n, row_norm)
        if self._with_intercept and not isinstance(penalty, NoPenalty):
            return FreeLast(penalty)
        return penalty

    def _starts(
        self, public: list[Rows] | None, n: int, runs: int
    ) -> list[Array | None]:
        """The start points of the runs; None is 0. n: private rows.

        Without a word: the public mean for means, which lose nothing by it, else 0.
        """
        start = self.start
        if start is None:
            centred = public is not None and isinstance(self._loss(), Mean)
            start = "public" if centred else "zeros"
        if start == "zeros":
            return [None] * runs
        if public is None:
            raise InvalidParameterError(
                "start='public' needs public rows, with labels where there are labels"
            )
        loss, points = self._loss(), []
        for rows in public:
            assert rows.row_norm is not None
            penalty = self._full_penalty(n, rows.row_norm)
            points.append(defaults.public_minimiser(loss, penalty, rows))
        return [point if np.any(point) else None for point in points]

    def _certified(
        self,
        raw: Mechanism,
        dimension: int,
        runs: int,
        declarations: tuple[str, ...],
    ) -> Certificate:
        """The certificate of the mechanism with its noise calibrated for all runs."""
        analysis = self._analysis(raw, runs)
        base = calibrate(raw, epsilon=self.epsilon, delta=self.delta, analysis=analysis)
        factor = math.sqrt(runs)
        while True:
            made = base.with_noise(factor)
            numeric = numeric_model(made, dimension)
            real = accounted(made, numeric, runs)
            if guarantee(real, analysis, runs).delta(self.epsilon) <= self.delta:
                break
            factor *= (1 + numeric.noise_loss) * (1 + 1e-14)
        source = (
            NoiseSource.OS_ENTROPY
            if self.random_state is None
            else NoiseSource.USER_SEED
        )
        return certify(
            made,
            delta=self.delta,
            noise_source=source,
            numeric=numeric,
            analysis=analysis,
            declarations=declarations,
            runs=runs,
        )

    def _analysis(self, raw: Mechanism, runs: int) -> str:
        """For several runs "best" is the best of the Gaussian analyses."""
        if runs == 1 or self.analysis != "best":
            return self.analysis
        if raw.epochs[0].placement is Placement.EPOCH_END:
            return "epoch_end"
        return "hidden_state"

    def _run(
        self,
        private: list[Rows],
        public: list[Rows] | None,
        prepared: Prepared,
        words: tuple[str, ...],
        charge: Charge | None,
        progress: Progress | None,
    ) -> Array:
        """Charge, then run once for each table of `private`: (runs, d).

        private, public: the same features with the labels of each run. words: further
        declarations for the certificate. progress: called with (steps done, all).
        """
        from dpbraid.engine.once import run

        runs, d = len(private), private[0].dimension
        starts = self._starts(public, len(private[0]), runs)
        if any(point is not None for point in starts):
            starts = [np.zeros(d) if point is None else point for point in starts]
        farthest = max(starts, key=lambda p: 0.0 if p is None else _norm_above(p))
        raw = self._mechanism(private[0], public, farthest, runs)
        certificate = self._certified(raw, d, runs, prepared.declarations + words)
        chosen = certificate.mechanism
        publics = [None] * runs if public is None else public
        for rows, known in zip(private, publics, strict=True):
            inputs.check(chosen, rows, known)
        if charge is not None:
            charge(certificate)
        seeds: list[Any] = [None] * runs
        if self.random_state is not None:
            seeds = np.random.SeedSequence(self.random_state).spawn(runs)
        released = [
            run(
                chosen,
                rows,
                known,
                start=start,
                seed=seed,
                progress=_share(progress, number, runs),
            ).x
            for number, (rows, known, start, seed) in enumerate(
                zip(private, publics, starts, seeds, strict=True)
            )
        ]
        self.certificate_: Certificate = certificate
        self.mechanism_: Mechanism = chosen
        self.public_transform_: FittedTransform | None = prepared.transform
        return np.array(released)

    # -- after fit ---------------------------------------------------------------------

    def _features(self, X: Any) -> Array:
        """The features of rows to predict on, after the public transform."""
        check_is_fitted(self, "certificate_")
        features: Array = validate_data(self, X, reset=False, dtype=np.float64)
        if self.public_transform_ is not None:
            features = check_array(self.public_transform_.transform(features))
        return features

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX=N_CHAR_MAX)
        if self.random_state is not None:
            text += "  # seeded: reproducible, not private"
        return text

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "certificate_")


def _share(progress: Progress | None, number: int, runs: int) -> Progress | None:
    """The progress of one of several runs as that of all."""
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, runs * total)


def _transform_words(transform: FittedTransform) -> str:
    declared = (
        ""
        if transform.row_by_row
        else " That it maps each row by itself, whatever the others are, is the user's "
        "word."
    )
    return (
        f"Features were transformed by {transform.description}, fitted on public rows."
        f"{declared}"
    )


def _norm_above(point: Array) -> float:
    """A bound on the norm of a point that survives rounding."""
    return float(np.linalg.norm(point)) * (1 + 1e-9)


class LinearPredictor:
    """<x, coef> + intercept."""

    def _margins(self: Any, X: Any) -> Array:
        features = self._features(X)
        margins: Array = features @ self.coef_.T + self.intercept_
        return margins


def mixture(name: str | None, weight: float, l1_ratio: float) -> Penalty:
    """weight * ((1 - l1_ratio) |x|^2 / 2 + l1_ratio |x|_1); "l2", "l1" are its ends."""
    _validate.in_range(0, 1, l1_ratio=l1_ratio)
    shares = {"l2": 0.0, "l1": 1.0, "elasticnet": l1_ratio}
    if name is None:
        return NoPenalty()
    if name not in shares:
        raise InvalidParameterError(
            f"penalty must be 'l1', 'l2', 'elasticnet' or None, got {name!r}"
        )
    share = shares[name]
    if share == 0:
        return Ridge(weight)
    if share == 1:
        return Lasso(weight)
    return ElasticNet(weight * share, weight * (1 - share))
