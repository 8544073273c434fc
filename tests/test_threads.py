"""One BLAS thread, whoever else asks for it."""

from threading import Event, Thread

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sparsebayes._threads import one_blas_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_the_limit_is_lifted_by_the_last_of_several_threads():
    begun, go_on = Event(), Event()

    def other():
        with one_blas_thread():
            begun.set()
            go_on.wait(30)

    with threadpool_limits(2, user_api="blas"):
        thread = Thread(target=other)
        with one_blas_thread():
            thread.start()
            assert begun.wait(30)
        assert blas_threads() == {1}  # the other one is still at work
        go_on.set()
        thread.join(30)
        assert blas_threads() == {2}


def test_the_limit_is_lifted_after_an_error():
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            _ = 1 / 0
        assert blas_threads() == {2}
