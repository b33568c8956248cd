"""Hypothesis strategies for losses, penalties, orders and mechanisms."""

from __future__ import annotations

from hypothesis import strategies as st

import dpbraid as db

MARGIN_LOSSES = (
    db.Squared(),
    db.Logistic(),
    db.Huber(0.7),
    db.SmoothedHinge(0.5),
)
LOSSES = (db.Mean(), *MARGIN_LOSSES)
PENALTIES = (
    db.NoPenalty(),
    db.Ridge(0.3),
    db.Lasso(0.2),
    db.ElasticNet(0.1, 0.4),
    db.Ball(1.5),
    db.Box(-0.5, 1.0),
    db.FreeLast(db.Lasso(0.2)),
)
ORDERS = (
    db.Incremental(),
    db.ShuffleOnce(),
    db.ShuffleOnce(secret=False),
    db.Reshuffle(),
    db.ShuffleBuffer(3),
)


@st.composite
def epochs(draw: st.DrawFn, n: int) -> db.Epoch:
    """Any valid epoch over n private rows and up to n public ones."""
    private = draw(st.integers(0, n))
    public = draw(st.integers(0 if private else 1, n))
    placement = draw(st.sampled_from(list(db.Placement)))
    noise = draw(st.sampled_from([0.0, 0.5, 2.0]))
    if placement is db.Placement.EPOCH_END and private == 0:
        noise = 0.0
    return db.Epoch(
        private,
        public,
        learning_rate=draw(st.sampled_from([0.01, 0.1, 0.3])),
        noise_std=noise,
        placement=placement,
        public_start=draw(st.integers(0, 2)),
    )


@st.composite
def mechanisms(draw: st.DrawFn, max_n: int = 7) -> db.Mechanism:
    """Any valid mechanism, small enough to run."""
    n = draw(st.integers(1, max_n))
    return db.Mechanism(
        n=n,
        epochs=tuple(draw(st.lists(epochs(n), min_size=1, max_size=4))),
        loss=draw(st.sampled_from(LOSSES)),
        penalty=draw(st.sampled_from(PENALTIES)),
        order=draw(st.sampled_from(ORDERS)),
        clip_norm=draw(st.sampled_from([None, 0.3, 5.0])),
        batch_size=draw(st.integers(1, n)),
        row_norm=draw(st.sampled_from([None, 1.0, 2.5])),
        public_row_norm=draw(st.sampled_from([None, 3.0])),
        public_order=draw(st.sampled_from([db.Incremental(), db.Reshuffle()])),
        start=draw(st.sampled_from([db.Zeros(), db.Normal(0.1)])),
    )
