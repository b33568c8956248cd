"""A second numerical route to a guarantee, for checking the first.

`recheck` shares the theorems with the analyses and none of their evaluation: it builds
the steps one by one from the mechanism, solves Theorem 2 as a weighted isotonic
regression, runs the resulting allocation through the recursion of Theorem 1 to see that
it removes every shift, integrates the hockey-stick divergence numerically, and composes
privacy losses with dp-accounting. Positions that Lemma M rules out are tried too.

The results are upper estimates of delta up to the accuracy of the quadrature (1e-7
relative, for secret orders also 1e-14 in all), except for the positions, of which
first, middle and last are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpbraid import _validate
from dpbraid.mechanism import Epoch, Mechanism, Placement
from dpbraid.orders import ShuffleOnce
from dpbraid.privacy.account import BEST, account
from dpbraid.privacy.profile import PrivacyAssumptionError
from dpbraid.privacy.registry import ANALYSES

Array = NDArray[np.float64]

# Rows of an epoch that can be walked through.
_MOST_ROWS = 20_000_000
# Slots with a chain of their own; more are grouped, each group at its latest slot.
_MOST_SLOTS = 1500
# Nodes of the table of delta over the hull's cost, both on logarithms.
_TABLE = 100_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_GROWING = np.concatenate(([0.0], 0.5 * 1.5 ** np.arange(12)))


def recheck(
    mechanism: Mechanism, analysis: str, epsilon: float, *, target: float = 0.0
) -> float:
    """Upper estimate of delta at epsilon by a second route.

    target: where an analysis rests on several theorems, the first estimate that is at
    most this is returned; 0 for the smallest of all, which can take much longer.

    Raises PrivacyAssumptionError where the analysis refuses the mechanism.
    """
    _validate.nonnegative(epsilon=epsilon)
    account(mechanism, analysis)  # conditions first
    if analysis == BEST:
        best = math.inf
        for name in ANALYSES:
            try:
                best = min(best, recheck(mechanism, name, epsilon, target=target))
            except PrivacyAssumptionError:
                continue
            if best <= target:
                break
        return best
    if not any(epoch.private_rows for epoch in mechanism.epochs):
        return 0.0
    bare = any(e.private_rows and not e.noise_std for e in mechanism.epochs)
    if bare and analysis != "hidden_state":
        return 1.0  # only the noise of later epochs could hide such a use

    def gaussian(mu: Callable[[Mechanism], float]) -> float:
        return gaussian_divergence(epsilon, mu(mechanism))

    routes: dict[str, Callable[[], Iterator[float]]] = {
        "paper": lambda: iter([_paper(mechanism, epsilon)]),
        "composition": lambda: iter([gaussian(_composition_mu)]),
        "epoch_end": lambda: iter([gaussian(_composition_mu)]),
        "hidden_state": lambda: iter([gaussian(_hidden_state_mu)]),
        "secret_order": lambda: _secret_order(mechanism, epsilon),
    }
    if analysis not in routes:
        raise _validate.InvalidParameterError(
            f"analysis must be one of {', '.join(map(repr, routes))} to be checked by "
            f"a second route, got {analysis!r}"
        )
    best = 1.0
    for delta in routes[analysis]():
        best = min(best, delta)
        if best <= target:
            break
    return best


def recheck_mu(mechanism: Mechanism, analysis: str) -> float:
    """mu by a second route, for an analysis whose profile is that of a Gaussian.

    A secret order gives one only where there is nothing to hide, by composition.

    Raises PrivacyAssumptionError where the analysis refuses the mechanism.
    """
    account(mechanism, analysis)  # conditions first
    if analysis == "hidden_state":
        return _hidden_state_mu(mechanism)
    if analysis in ("composition", "epoch_end", "secret_order"):
        return _composition_mu(mechanism)
    raise _validate.InvalidParameterError(f"analysis {analysis!r} gives no mu")


# -- the steps, one by one -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Steps:
    """Noise std and Lipschitz factor of each step of an epoch, in units of x."""

    noise: Array
    factors: Array
    private: int
    shift: float
    prox: float
    private_certified: bool
    public_certified: bool

    def certified(self, step: int) -> bool:
        """Whether every step after `step` is nonexpansive."""
        later_private = step < self.private and not self.private_certified
        later_public = self.private < len(self.noise) and not self.public_certified
        return not (later_private or later_public)

    @property
    def last_noise(self) -> int:
        """Number of the last noisy step; 0 for none."""
        return int(max(np.flatnonzero(self.noise) + 1, default=0))

    def until(self, end: int) -> _Steps:
        """The steps up to number `end` alone."""
        return replace(self, noise=self.noise[:end], factors=self.factors[:end])


@lru_cache(maxsize=64)
def _steps(mechanism: Mechanism, epoch: Epoch, contract: bool) -> _Steps:
    """The epoch of a mechanism, its list of epochs left out."""
    b, eta, loss = mechanism.batch_size, epoch.learning_rate, mechanism.loss
    sizes = _sizes(epoch.private_rows, b) + _sizes(epoch.public_rows, b)
    private = len(_sizes(epoch.private_rows, b))
    noise = np.zeros(len(sizes))
    if epoch.placement is Placement.EVERY_STEP:
        noise[:] = eta * epoch.noise_std
    elif private:
        noise[private - 1] = eta * epoch.noise_std
    own = math.inf if mechanism.row_norm is None else mechanism.row_norm
    other = mechanism.public_row_norm
    other = own if other is None else other
    provable = mechanism.clip_norm is None or loss.clipped_steps_nonexpansive
    private_certified = provable and eta * loss.smoothness(own) <= 2
    public_certified = provable and eta * loss.smoothness(other) <= 2
    factors = np.ones(len(sizes))
    if contract and mechanism.clip_norm is None:
        full = loss.step_contraction(eta)
        for i, size in enumerate(sizes):
            if private_certified if i < private else public_certified:
                factors[i] = 1 - (1 - full) * size / b
    difference = loss.sensitivity(own)
    if mechanism.clip_norm is not None:
        difference = 2 * mechanism.clip_norm  # also where the loss is flatter
    prox = mechanism.penalty.contraction(eta * epoch.rows / b) if contract else 1.0
    shift = eta * (math.inf if difference is None else difference) / b
    return _Steps(
        noise, factors, private, shift, prox, private_certified, public_certified
    )


def _sizes(rows: int, batch_size: int) -> list[int]:
    full, rest = divmod(rows, batch_size)
    return [batch_size] * full + [rest] * (rest > 0)


def _read(mechanism: Mechanism, epoch: Epoch, contract: bool = True) -> _Steps:
    if epoch.rows > _MOST_ROWS:
        raise _validate.InvalidParameterError(
            f"an epoch must have at most {_MOST_ROWS} rows to be walked through step "
            f"by step, got {epoch.rows}"
        )
    return _steps(replace(mechanism, epochs=mechanism.epochs[:1]), epoch, contract)


@dataclass(frozen=True)
class _Part:
    """An epoch around one use: noise before and from it on, and shift, at its end."""

    before: float
    after: float
    shift: float
    factor: float
    prox: float


def _part(steps: _Steps, step: int) -> _Part:
    """The epoch with the row at `step` = 1, 2, .., or without it at 0."""
    factors = steps.factors
    if np.all(factors == 1):
        variances, at_use, product = steps.noise**2, 1.0, 1.0
    else:
        to_end = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
        variances = (steps.noise * to_end) ** 2
        at_use, product = float(to_end[step - 1]), float(np.prod(factors))
    first = max(step - 1, 0)
    return _Part(
        float(np.sum(variances[:first])),
        float(np.sum(variances[first:])),
        steps.shift * at_use if step else 0.0,
        product,
        steps.prox,
    )


# -- Theorem 2 as isotonic regression, checked by the recursion of Theorem 1 -----------


def _chain_mu(parts: list[_Part], diameter: float | None = None) -> float:
    """mu of the whole chain; with a diameter, the best over where it is cut."""
    worth = [1.0]
    for part, following in zip(parts[-2::-1], parts[:0:-1], strict=True):
        worth.append(worth[-1] * following.factor * part.prox)
    worth.reverse()
    shifts = [0.0]
    variances = [parts[0].before * worth[0] ** 2]
    for k, part in enumerate(parts):
        shifts.append(part.shift * worth[k])
        later = parts[k + 1].before * worth[k + 1] ** 2 if k + 1 < len(parts) else 0.0
        variances.append(part.after * worth[k] ** 2 + later)
    best = _allocated_mu(np.array(variances), np.array(shifts))
    if diameter is None:
        return best
    for k in range(1, len(parts)):
        # nothing is removed before the cut; then at most the diameter is left
        entry = diameter * worth[k] * parts[k].factor
        first = parts[k].before * worth[k] ** 2
        best = min(
            best,
            _allocated_mu(
                np.array([first, *variances[k + 1 :]]),
                np.array([entry, *shifts[k + 1 :]]),
            ),
        )
    return best


def _allocated_mu(variances: Array, shifts: Array) -> float:
    """sqrt of the least sum a^2/v that removes all shifts; shift i precedes noise i."""
    from scipy.optimize import isotonic_regression

    noisy = np.flatnonzero(variances > 0)
    if len(noisy) == 0 or np.any(shifts[noisy[-1] + 1 :] > 0):
        return 0.0 if not np.any(shifts > 0) else math.inf
    # a shift without noise of its own waits for the next noise
    arriving = np.add.reduceat(
        shifts[: noisy[-1] + 1], np.concatenate(([0], noisy[:-1] + 1))
    )
    v = variances[noisy]
    slopes = isotonic_regression(arriving / v, weights=v).x
    removed = np.maximum(slopes, 0.0) * v
    # Theorem 1: what is left never goes below zero, and ends at zero
    left = np.cumsum(arriving) - np.cumsum(removed)
    total = float(np.sum(arriving))
    if np.min(left) < -1e-9 * total or abs(left[-1]) > 1e-9 * total:
        raise ArithmeticError("the allocation found does not solve Theorem 1")
    return math.sqrt(float(np.sum(removed**2 / v)))


# -- the hockey-stick divergence by quadrature -----------------------------------------


def gaussian_divergence(epsilon: float, mu: float) -> float:
    """Integral of (p - e^epsilon q)_+ for p = N(mu, 1), q = N(0, 1)."""
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    return float(_divergences(epsilon, np.array([mu]))[0])


def _divergences(epsilon: float | Array, mus: float | Array) -> Array:
    """`gaussian_divergence` on arrays, by Gauss-Legendre on panels."""
    epsilons, mu = np.broadcast_arrays(np.asarray(epsilon), np.asarray(mus))
    # where p is e^epsilon q, seen from p's mean; beyond 100 nothing is left
    with np.errstate(over="ignore"):
        start = np.minimum(epsilons / mu - 0.5 * mu, 100.0)
    # p = phi(x) for x >= start. Beyond a start > 0 it falls as exp(-start t): panels
    # that grow; else equal panels over the bulk, less than 1e-30 to the left of it
    grown = start[:, None] + _GROWING / np.maximum(start, 1.0)[:, None]
    low = np.clip(start, -12.0, 0.0)[:, None]
    equal = low + (12.0 - low) * np.linspace(0, 1, len(_GROWING))
    edges = np.where(start[:, None] > 0, grown, equal)
    total = np.zeros(len(start))
    for a, b in pairwise(edges.T):
        x = a[:, None] + 0.5 * (b - a)[:, None] * (_NODES + 1)
        with np.errstate(under="ignore"):
            density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        # p - e^epsilon q = p (1 - exp(-mu (x - start)))
        values = density * -np.expm1(-mu[:, None] * (x - start[:, None]))
        total += 0.5 * (b - a) * np.sum(_WEIGHTS * values, axis=1)
    return total * (1 + 1e-9)


# -- one route per analysis ------------------------------------------------------------


def _paper(mechanism: Mechanism, epsilon: float) -> float:
    """Mironov's conversion, minimised over the order by golden section."""
    rate = 0.0
    for epoch in mechanism.epochs:
        if epoch.private_rows:
            steps = _read(mechanism, epoch)
            m = np.count_nonzero(steps.noise[steps.private - 1 :])
            noise = float(steps.noise[steps.private - 1])
            rate += steps.shift**2 / (2 * noise**2 * m)

    def log_delta(log_order: float) -> float:
        excess = math.exp(log_order)
        return -excess * (epsilon - (1 + excess) * rate)

    low, high = -40.0, 40.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(200):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if log_delta(left) < log_delta(right):
            high = right
        else:
            low = left
    return math.exp(min(log_delta(0.5 * (low + high)), 0.0))


def _composition_mu(mechanism: Mechanism) -> float:
    cost = 0.0
    costs: dict[Epoch, float] = {}
    for epoch in mechanism.epochs:
        if epoch.private_rows and epoch not in costs:
            steps = _read(mechanism, epoch)
            costs[epoch] = max(
                _epoch_mu(mechanism, epoch, steps, j) ** 2
                for j in _positions(steps.private)
            )
        cost += costs.get(epoch, 0.0)
    return math.sqrt(cost)


def _epoch_mu(mechanism: Mechanism, epoch: Epoch, steps: _Steps, step: int) -> float:
    """What one epoch pays for a use at `step`, by the least of the valid ways."""
    best = math.inf
    if steps.noise[step - 1] > 0:
        best = steps.shift / float(steps.noise[step - 1])
    # the steps after the last noise are post-processing; those after the private ones
    # may be left out
    for end in (steps.last_noise, steps.private):
        reaching = steps.until(end)
        if reaching.certified(step):
            part = _part(reaching, step)
            best = min(
                best, _allocated_mu(np.array([part.after]), np.array([part.shift]))
            )
    ends = steps.private
    if not best < math.inf and steps.noise[ends - 1] > 0:
        # carried to the last private step, with the displacement of the steps between
        extra = 0.0
        if not steps.private_certified and ends > 1:
            bound = mechanism.loss.lipschitz(mechanism.row_norm or math.inf)
            norms = [x for x in (bound, mechanism.clip_norm) if x is not None]
            extra = 2 * epoch.learning_rate * min(norms) * (ends - step)
        best = (steps.shift + extra) / float(steps.noise[ends - 1])
    return best


def _hidden_state_mu(mechanism: Mechanism) -> float:
    epochs = [_read(mechanism, epoch) for epoch in mechanism.epochs]
    while epochs and not epochs[-1].last_noise:
        if epochs.pop().private:
            return math.inf  # no noise hides this use
    if not any(steps.private for steps in epochs):
        return 0.0
    # what comes after the last noise is post-processing
    epochs[-1] = epochs[-1].until(epochs[-1].last_noise)
    worst = 0.0
    for share in (0.0, 0.5, 1.0):
        parts = []
        for steps in epochs:
            step = max(1, round(share * steps.private)) if steps.private else 0
            parts.append(_part(steps, step))
        worst = max(worst, _chain_mu(parts, mechanism.penalty.diameter))
    return worst


def _positions(private: int) -> set[int]:
    return {1, (private + 1) // 2, private}


def _secret_order(mechanism: Mechanism, epsilon: float) -> Iterator[float]:
    """The theorems of secret orders that hold, the quick ones first."""
    try:
        account(mechanism, "hidden_state")
        hidden = True
    except PrivacyAssumptionError:
        hidden = False
    if isinstance(mechanism.order, ShuffleOnce):
        yield _one_permutation(mechanism, epsilon, hidden)
        return
    if hidden:
        yield _last_position(mechanism, epsilon)
        kinds = {epoch for epoch in mechanism.epochs if epoch.private_rows}
        count = sum(epoch.private_rows > 0 for epoch in mechanism.epochs)
        epoch = next(iter(kinds))
        if len(kinds) == 1 and 2 <= count <= 300 and epoch.private_rows < mechanism.n:
            yield _participation(mechanism, epoch, count, epsilon)
    yield gaussian_divergence(epsilon, _composition_mu(mechanism))
    for resolution in (100, 400):
        yield _composed(mechanism, epsilon, resolution)


def _slots(rows: int) -> Iterator[tuple[int, int]]:
    """Groups of slots as (latest slot, how many), finer towards the last one."""
    last, size = rows, 1.0
    growth = 1.0 if rows <= _MOST_SLOTS else 1 + 6 / _MOST_SLOTS
    while last > 0:
        count = min(max(int(size), 1), last)
        yield last, count
        last -= count
        size *= growth


def _one_permutation(mechanism: Mechanism, epsilon: float, hidden: bool) -> float:
    """D1, slot by slot."""
    reached = sorted({e.private_rows for e in mechanism.epochs if e.private_rows})
    share = reached[-1] / mechanism.n
    inner = math.log1p(math.expm1(epsilon) / share) if epsilon < 700 else epsilon
    mus, weights = [], []
    for low, high in zip([0, *reached[:-1]], reached, strict=True):
        for latest, count in _slots(high - low):
            slot = low + latest
            step = -(-slot // mechanism.batch_size)
            mus.append(_slot_mu(mechanism, slot, step, hidden))
            weights.append(count / mechanism.n)
    return float(np.sum(np.array(weights) * _mixture(inner, np.array(mus))))


def _slot_mu(mechanism: Mechanism, slot: int, step: int, hidden: bool) -> float:
    parts, cost = [], 0.0
    known: dict[Epoch, _Part] = {}
    for epoch in mechanism.epochs:
        steps = _read(mechanism, epoch, contract=False)
        used = epoch.private_rows >= slot
        if not hidden:
            cost += _epoch_mu(mechanism, epoch, steps, step) ** 2 if used else 0.0
            continue
        if epoch not in known:
            known[epoch] = _part(steps, step if used else 0)
        parts.append(known[epoch])
    return _chain_mu(parts) if hidden else math.sqrt(cost)


def _mixture(epsilon: float, mus: Array) -> Array:
    values = np.zeros(len(mus))
    values[np.isinf(mus)] = 1.0
    usual = (mus > 0) & np.isfinite(mus)
    values[usual] = _divergences(epsilon, mus[usual])
    return values


def _last_position(mechanism: Mechanism, epsilon: float) -> float:
    """D2, slot by slot in the last private epoch."""
    index = max(k for k, e in enumerate(mechanism.epochs) if e.private_rows)
    rows = mechanism.epochs[index].private_rows
    parts = []
    for epoch in mechanism.epochs:
        steps = _read(mechanism, epoch, contract=False)
        parts.append(_part(steps, steps.private))
    own = _read(mechanism, mechanism.epochs[index], contract=False)
    mus, weights = [], []
    for slot, count in [*_slots(rows), (0, mechanism.n - rows)]:
        step = -(-slot // mechanism.batch_size)
        parts[index] = _part(own, step)
        mus.append(_chain_mu(parts))
        weights.append(count / mechanism.n)
    return float(np.sum(np.array(weights) * _mixture(epsilon, np.array(mus))))


def _participation(
    mechanism: Mechanism, epoch: Epoch, count: int, epsilon: float
) -> float:
    """D3 or D3' with the hull cost's law from its generating function by FFT."""
    p = epoch.private_rows / mechanism.n
    steps = _read(mechanism, epoch, contract=False)
    total, private = len(steps.noise), steps.private
    noise = float(steps.noise[private - 1])
    every = epoch.placement is Placement.EVERY_STEP
    law, cells = _cost_law(count - 2 if every else count, p)
    costs = np.arange(len(law)) / cells
    tail = [(0.0, 1.0)]
    if every:
        costs = costs / total
        tail = [(0.0, (1 - p) ** 2), (1 / (2 * total - private + 1), p * (1 - p))]
        for slot, slots in _slots(epoch.private_rows):
            j = -(-slot // mechanism.batch_size)
            d1, d2 = total - private + j, total - j + 1
            share = slots / mechanism.n
            tail.append((1 / d1 + 1 / d2 if d1 >= d2 else 4 / (d1 + d2), p * share))
            tail.append((1 / d2, (1 - p) * share))
    # log delta as a function of log cost, tabulated and interpolated: error below 1e-7
    ratio = steps.shift / noise
    most = float(costs[-1]) + max(cost for cost, _ in tail)
    least = min(float(costs[1]) if len(costs) > 1 else most, most)
    least = min([least, *(cost for cost, _ in tail if cost > 0)])
    nodes = np.linspace(math.log(least), math.log(most) + 1e-9, _TABLE)
    values = _divergences(epsilon, ratio * np.exp(0.5 * nodes))
    logs = np.log(np.maximum(values, 1e-320))
    result = 0.0
    for cost, weight in tail:
        at = np.maximum(costs + cost, least)
        deltas = np.exp(np.interp(np.log(at), nodes, logs))
        result += weight * float(np.sum(law * np.where(costs + cost > 0, deltas, 0.0)))
    return result * (1 + 1e-7)


@lru_cache(maxsize=4)
def _cost_law(epochs: int, p: float) -> tuple[Array, int]:
    """Law of C_m on a grid, costs rounded up: m! [x^m] exp(sum_l h_l x^l / l)."""
    cells = 840 if epochs <= 8 else max(40, min(640, 24_000 // epochs))
    size = 1 << (epochs * cells + 1).bit_length()
    transforms = []
    for length in range(1, epochs + 1):
        uses = np.arange(length + 1)
        logs = [
            math.lgamma(length + 1) - math.lgamma(k + 1) - math.lgamma(length - k + 1)
            for k in uses.tolist()
        ]
        weights = np.exp(logs) * p**uses * (1 - p) ** (length - uses)
        index = -(-(uses**2) * cells // length)
        transforms.append(np.fft.rfft(np.bincount(index, weights, size)))
    series = [np.ones(size // 2 + 1, dtype=np.complex128)]
    for m in range(1, epochs + 1):
        term = np.zeros(size // 2 + 1, dtype=np.complex128)
        for i in range(1, m + 1):
            term += transforms[i - 1] * series[m - i]
        series.append(term / m)
    law = np.maximum(np.fft.irfft(series[epochs], size)[: epochs * cells + 1], 0.0)
    return law, cells


def _composed(mechanism: Mechanism, epsilon: float, resolution: int) -> float:
    """D4 by dp-accounting's pessimistic connect-the-dots and its composition.

    resolution: grid cells a standard deviation of the privacy loss; one epoch by itself
    needs no grid.
    """
    from dp_accounting.pld import pld_pmf

    counts: dict[Epoch, int] = {}
    for epoch in mechanism.epochs:
        if epoch.private_rows:
            counts[epoch] = counts.get(epoch, 0) + 1
    laws = {}
    for epoch in counts:
        steps = _read(mechanism, epoch, contract=False)
        shares: dict[float, float] = {}
        for slot, slots in _slots(epoch.private_rows):
            j = -(-slot // mechanism.batch_size)
            mu = _epoch_mu(mechanism, epoch, steps, j)
            if epoch.placement is Placement.EPOCH_END:
                mu = _epoch_mu(mechanism, epoch, steps, 1)
            if epoch.private_rows > _MOST_SLOTS:  # grouped, upwards
                mu = 1.0005 ** math.ceil(math.log(mu) / math.log(1.0005))
            shares[mu] = shares.get(mu, 0.0) + slots / epoch.private_rows
        laws[epoch] = shares
    if sum(counts.values()) == 1:
        ((epoch, shares),) = laws.items()
        p = epoch.private_rows / mechanism.n
        inner = math.log1p(math.expm1(epsilon) / p) if epsilon < 700 else epsilon
        mus, weights = np.array(list(shares)), np.array(list(shares.values()))
        return p * float(np.sum(weights * _mixture(inner, mus)))
    spread = sum(
        count
        * sum(
            w * min((e.private_rows / mechanism.n) ** 2 * math.expm1(min(m2, 20)), m2)
            for m2, w in ((mu * mu, w) for mu, w in laws[e].items())
        )
        for e, count in counts.items()
    )
    largest = max(max(shares) for shares in laws.values())
    reach = largest * 8.5 + 0.5 * largest**2
    gap = math.sqrt(spread / sum(counts.values())) / resolution
    gap = max(gap, reach / (200 * resolution))
    composed = None
    for epoch, count in counts.items():
        p = epoch.private_rows / mechanism.n
        grid = np.arange(math.ceil(reach / gap) + 1) * gap
        upper = np.zeros(len(grid))
        inners = np.where(
            grid < 30, np.log1p(np.expm1(np.minimum(grid, 30)) / p), grid - math.log(p)
        )
        for mu, weight in laws[epoch].items():
            end = int(np.searchsorted(inners, 8.5 * mu + 0.5 * mu**2, "right"))
            upper[:end] += p * weight * _divergences(inners[:end], mu)
            upper[end:] += p * weight * 1e-17
        upper = np.minimum.accumulate(np.minimum(upper, 1.0))
        lower = 1 - np.exp(-grid[:0:-1]) * (1 - upper[:0:-1])
        half = len(grid) - 1
        deltas = np.minimum.accumulate(np.concatenate((lower, upper)))
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            gap, -half, half, deltas
        )
        pmf = pmf.to_dense_pmf().self_compose(count)
        composed = pmf if composed is None else composed.compose(pmf)
    assert composed is not None
    return float(composed.get_delta_for_epsilon(epsilon))
