"""Thousands of small fits: on busy cores, threads that wait for each other cost thirtyfold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    # Comes with scikit-learn.
    library: Any = pytest.importorskip("threadpoolctl")
    import sklearn.linear_model  # noqa: F401 - only loaded libraries can be limited

    with library.threadpool_limits(1):
        yield
