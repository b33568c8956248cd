"""What an audit tries to refute: a guarantee, computed or printed on a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpbraid import _validate
from dpbraid.mechanism import Mechanism
from dpbraid.numeric import numeric_model
from dpbraid.orders import Reshuffle, ShuffleOnce
from dpbraid.privacy.certificate import Certificate, accounted, guarantee
from dpbraid.privacy.profile import Curve, GaussianCurve


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta) and the whole curve behind it, for replacing one private row.

    needs_secret_order: whether nobody may know the order for it to hold.
    """

    analysis: str
    epsilon: float
    delta: float
    curve: Curve
    needs_secret_order: bool

    @property
    def mu(self) -> float | None:
        """The mu of a Gaussian claim."""
        return self.curve.mu


def claim(
    mechanism: Mechanism,
    *,
    delta: float = 1e-6,
    analysis: str = "best",
    dimension: int = 2,
    releases: int = 1,
) -> Claim:
    """What the accountant proves for the engine's release of this mechanism.

    releases: how many runs on the same rows are released together.
    """
    _validate.probability(delta=delta)
    numeric = numeric_model(mechanism, dimension)
    one = accounted(mechanism, numeric, releases)
    profile = guarantee(one, analysis, releases)
    epsilon = profile.epsilon(delta)
    name = profile.at(epsilon).analysis if math.isfinite(epsilon) else profile.analysis
    secret = any(
        assumption.name == "secret order"
        for part in profile.alternatives or (profile,)
        for assumption in part.assumptions
    )
    return Claim(name, epsilon, delta, profile.curve, secret)


def printed(certificate: Certificate) -> Claim:
    """What a certificate says; for a run without a guarantee, what it could have said.

    The numbers are those of the file, so that a file that promises too much is caught.
    """
    c = certificate
    found = claim(
        c.mechanism,
        delta=c.delta,
        analysis=c.analysis,
        dimension=c.numeric.dimension,
        releases=c.runs,
    )
    if c.epsilon is None:
        return found
    curve = found.curve if c.mu is None else GaussianCurve(c.mu)
    return replace(found, epsilon=c.epsilon, curve=curve)


def order_is_secret(mechanism: Mechanism) -> bool:
    """Whether the mechanism draws its order and tells nobody."""
    order = mechanism.order
    return isinstance(order, ShuffleOnce | Reshuffle) and order.secret
