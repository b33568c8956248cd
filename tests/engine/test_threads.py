from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import threadpool_info

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
