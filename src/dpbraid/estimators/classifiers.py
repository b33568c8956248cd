"""PrivateLogisticRegression and PrivateLinearSVC."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid.estimators import tables
from dpbraid.estimators.base import (
    Charge,
    LinearPredictor,
    PrivateEstimator,
    Progress,
    mixture,
)
from dpbraid.losses import Logistic, Loss, SmoothedHinge
from dpbraid.penalties import Penalty
from dpbraid.rows import Rows

Array = NDArray[np.float64]


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateClassifier(ClassifierMixin, LinearPredictor, PrivateEstimator):  # type: ignore[misc]
    """Linear classifiers; more than two classes by one-vs-rest.

    With k > 2 classes there are k runs on the same private rows, each for one class
    against the rest, and one certificate for all of them: k runs of a mu-GDP mechanism
    are exactly sqrt(k) mu-GDP, so each run gets mu / sqrt(k).
    """

    penalty: str | None = "l2"
    C: float = 1.0
    l1_ratio: float = 0.5
    fit_intercept: bool = True
    classes: Any = None

    def fit(
        self,
        X: Any,
        y: Any,
        X_public: Any = None,
        y_public: Any = None,
        charge: Charge | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit on private rows; see the class for what is guaranteed.

        X: (n, d); y: (n,). X_public, y_public: public rows, not protected; y_public is
        needed by schedules that use public rows. charge: called with the certificate
        after everything has been checked and before any noise is drawn; if it raises,
        nothing is released. progress: called with (steps done, all steps). A private
        label outside of the classes makes its row a zero row.
        """
        self._check_parameters()
        prepared = self._prepare(X, X_public)
        n = len(prepared.X)
        classes = tables.class_set(self.classes, y, n, y_public)
        numbers = tables.label_numbers(y, n, classes)
        whole = prepared.whole & (numbers >= 0)
        known = np.where(whole, numbers, 0)
        prepared = prepared.only(whole)
        runs = 1 if len(classes) == 2 else len(classes)
        targets = range(1, 2) if runs == 1 else range(runs)
        base = self._rows(prepared.X, whole, None, prepared.row_norm)
        private = [_labelled(base, known == k) for k in targets]
        public = None
        if prepared.X_public is not None and y_public is not None:
            m = len(prepared.X_public)
            marks = tables.label_numbers(y_public, m, classes)
            if np.any(marks < 0):
                raise InvalidParameterError(
                    "y_public must hold the classes alone: a public label is none of "
                    "them"
                )
            rows = self._rows(prepared.X_public, np.ones(m), None, prepared.row_norm)
            public = [_labelled(rows, marks == k) for k in targets]
        words = (self._class_words(len(classes)),)
        x = self._run(private, public, prepared, words, charge, progress)
        self._accept(x, classes)
        return self

    def _accept(self, x: Array, classes: NDArray[Any] | None) -> None:
        """Take over released parameters, one row a run."""
        count = 0 if classes is None else len(classes)
        if classes is None or count < 2 or len(x) != (1 if count == 2 else count):
            raise InvalidParameterError("classes must match the rows of coefficients")
        d = x.shape[1] - int(self.fit_intercept)
        self.coef_: Array = x[:, :d].copy()
        self.intercept_: Array = (
            x[:, d].copy() if self.fit_intercept else np.zeros(len(x))
        )
        self.classes_: NDArray[Any] = classes

    def _released(self) -> Array:
        """The parameters that `_accept` took over."""
        if not self.fit_intercept:
            return self.coef_
        return np.concatenate([self.coef_, self.intercept_[:, None]], axis=1)

    def _penalty(self, n: int, row_norm: float) -> Penalty:
        _validate.positive(C=self.C)
        return mixture(self.penalty, 1 / (self.C * n), self.l1_ratio)

    def _class_words(self, count: int) -> str:
        if isinstance(self.classes, str):
            source = "are those in the private labels, declared to be public knowledge"
        elif self.classes is not None:
            source = "were given by the user"
        else:
            source = "are those of the public rows"
        split = (
            ""
            if count == 2
            else f" One run a class, {count} runs in all (one-vs-rest)."
        )
        return f"The {count} classes {source}.{split}"

    def decision_function(self, X: Any) -> Array:
        """Margins: (n,) for two classes, (n, k) for more."""
        margins = self._margins(X)
        return margins[:, 0] if len(self.classes_) == 2 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest margin."""
        scores = self.decision_function(X)
        places = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        found: NDArray[Any] = self.classes_[places]
        return found

    @abstractmethod
    def _loss(self) -> Loss: ...


def _labelled(rows: Rows, positive: NDArray[np.bool_]) -> Rows:
    """The same rows with labels +1 and -1."""
    return rows.with_labels(np.where(positive, 1.0, -1.0))


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression: minimises C sum_i log(1 + exp(-y_i m_i)) + r(coef).

    r is |coef|^2 / 2 ("l2"), |coef|_1 ("l1"), or their mixture with the weights
    1 - l1_ratio and l1_ratio ("elasticnet"), or nothing (None); the intercept is not
    penalised. This is scikit-learn's objective with the same C.

    Parameters
    ----------
    epsilon, delta : the guarantee, for replacing one private row.
    row_norm : bound on the Euclidean norm of a row after `public_transform`; longer
        rows are scaled down to it. None takes the largest public row.
    penalty, C, l1_ratio : see above.
    classes : the labels; None takes those of y_public; "from_y" declares that the set
        of labels in y is public knowledge.
    clip_norm, learning_rate, epochs, batch_size : None follows docs/defaults.md.
    start : "zeros", or "public" for the minimiser on the public rows: much better
        where they are like the private ones, worse where they are not. None is zeros,
        and the public mean for PrivateMean.
    schedule : "dp", or one with public rows: "interleaved", "priv_pub", "pub_priv",
        "alternating" (docs/mechanism.md), with `private_fraction`.
    order : "reshuffle", "shuffle_once", "incremental" or an Order.
    noise_placement : "epoch_end", the most accurate one that is proved, or
        "every_step".
    analysis : the theorem, or "best".
    public_transform : a PublicTransform, fitted on X_public and applied to both tables.
    non_finite : "refuse" a private table with a value that is not finite, or make such
        rows "zero" rows.
    random_state : None draws from the operating system. A seed makes the model
        reproducible, and therefore not private.

    Attributes
    ----------
    coef_, intercept_, classes_, certificate_, mechanism_, public_transform_,
    n_features_in_, feature_names_in_ : all but the first two are public facts.
    """

    def _loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes; one-vs-rest probabilities are normalised."""
        margins = self._margins(X)
        if len(self.classes_) == 2:
            positive = expit(margins[:, 0])
            return np.stack([1 - positive, positive], axis=1)
        each = expit(margins)
        total = each.sum(axis=1, keepdims=True)
        uniform = np.full_like(each, 1 / each.shape[1])
        shares: Array = np.divide(each, total, out=uniform, where=total > 0)
        return shares

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            logs: Array = np.log(self.predict_proba(X))
        return logs


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateLinearSVC(PrivateClassifier):
    """Linear support vector machine with a smoothed hinge.

    Minimises C sum_i h(y_i m_i) + |coef|^2 / 2 (or |coef|_1, or their mixture), where h
    is the hinge max(0, 1 - m) with its corner rounded over `width`. The intercept is
    not penalised. The other parameters are those of `PrivateLogisticRegression`.
    """

    width: float = 0.5

    def _loss(self) -> Loss:
        return SmoothedHinge(self.width)
