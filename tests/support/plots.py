"""Plots as they are drawn for readers, or much faster for tests that do not look at them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from knowgate.offline_eval.report.plots import Plot

_SVG = Plot.svg
# Of plots of one name the first is drawn, so that a mistake in drawing fails a test.
_ALREADY: set[str] = set()


@contextmanager
def light_plots() -> Iterator[None]:
    """Draw plots without laying them out as SVG, which takes most of the time of a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plot, "svg", _drawn)
        yield


@contextmanager
def full_plots() -> Iterator[None]:
    """Write whole plots, within `light_plots` too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plot, "svg", _SVG)
        yield


def _drawn(plot: Plot) -> str:
    if plot.name not in _ALREADY:
        from matplotlib.figure import Figure

        plot.draw(Figure(figsize=plot.size))
        _ALREADY.add(plot.name)
    return f'<svg viewBox="0 0 1 1" role="img" aria-labelledby="{plot.name}-caption"></svg>'
