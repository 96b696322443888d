from __future__ import annotations

from itertools import pairwise

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from knowgate.offline_eval.report.plots import Plot


@pytest.mark.parametrize("count", [1, 5, 40, 200])
def test_names_stand_apart_and_beside_the_axes(count: int) -> None:
    axes = Figure().subplots()
    points = [(f"system {number}", 0.5, 0.0) for number in range(count)]

    Plot.name_points(axes, points, (0.0, 1.0), (0.0, 1.0))

    heights = sorted(text.xy[1] for text in axes.texts if isinstance(text, Annotation))
    assert len(heights) == count
    assert heights[0] >= -1e-9
    assert heights[-1] <= 1.0 + 1e-9
    least = min(0.05, 0.9 / count)
    assert all(upper - lower > least for lower, upper in pairwise(heights))
