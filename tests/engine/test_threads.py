from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import dpbraid as db
from dpbraid.engine import grid_not_private, run
from dpbraid.engine.threads import one_blas_thread


def sizes():
    return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}


def inside():
    with one_blas_thread():
        return sizes()


def test_one_thread_whichever_thread_asks():
    """Also after another thread, still alive, has asked before."""
    before = sizes()
    assert inside() == {1}
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(inside).result() == {1}
        assert inside() == {1}
    assert sizes() == before


def test_the_last_to_leave_restores():
    before = sizes()
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    with one_blas_thread():
        thread.start()
        assert entered.wait(10)
    assert sizes() == {1}
    leave.set()
    thread.join()
    assert sizes() == before


# -- runs ------------------------------------------------------------------------------


def many_ways():
    """Runs that go through every matrix product of the engine."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 700)), np.sign(rng.standard_normal(400))
    rows = db.Rows.bounded(X, y, row_norm=1.0)
    found = []
    for batch in (1, 200):
        for placement in db.Placement:
            m = db.dp(
                400,
                2,
                loss=db.Logistic(),
                learning_rate=0.1,
                clip_norm=1.0,
                row_norm=1.0,
                batch_size=batch,
                placement=placement,
            )
            found.append(run(m, rows, seed=1).x)
            columns = [m.with_noise(1 + i) for i in range(20)]
            for dtype in ("float32", "float64"):
                grid = grid_not_private(columns, rows, seed=1, dtype=dtype)
                found += [grid.iterates.ravel(), grid.objectives.ravel()]
    return np.concatenate(found)


def test_results_do_not_depend_on_the_number_of_threads():
    """Bit for bit; and the caller's own limit is there again afterwards."""
    found = []
    for limit in (1, 2, 4):
        with threadpool_limits(limit, user_api="blas"):
            before = sizes()
            found.append(many_ways())
            assert sizes() == before
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_runs_side_by_side_are_the_runs_one_by_one():
    """Also bit for bit; no run sees a BLAS of more than one thread meanwhile."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 900)), np.sign(rng.standard_normal(300))
    rows = db.Rows.bounded(X, y, row_norm=1.0)
    m = db.dp(300, 3, loss=db.Logistic(), learning_rate=0.1, clip_norm=1.0)
    widest = set()

    def one(seed):
        return run(m, rows, seed=seed, progress=lambda *_: widest.update(sizes())).x

    before = sizes()
    expected = [one(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(one, range(8)))
    assert np.array_equal(found, expected)
    assert widest == {1}
    assert sizes() == before
