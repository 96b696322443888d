"""Reports whose plots nobody looks at are written faster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.plots import full_plots, light_plots


@pytest.fixture(scope="session", autouse=True)
def _light_plots() -> Iterator[None]:
    with light_plots():
        yield


@pytest.fixture
def whole_plots() -> Iterator[None]:
    """For a test that looks at plots in a page."""
    with full_plots():
        yield
