"""Names of points, in a column beside the axes, so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._svg import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def name_points(
    axes: Axes,
    points: Sequence[tuple[str, float, float]],
    across: tuple[float, float],
    upward: tuple[float, float],
) -> None:
    """Write each name right of the axes and join it to its point by a line.

    Args:
        axes: with the two scales.
        points: name, across, up.
        across: ends of the horizontal scale.
        upward: ends of the vertical one.
    """
    low, high = upward
    # Many names stand closer, so that the column is never longer than the axes are high.
    step = min(0.052, 1 / max(1, len(points) - 1)) * (high - low)
    heights: list[float] = []
    ordered = sorted(points, key=lambda point: (point[2], point[1], point[0]))
    for _, _, up in ordered:
        heights.append(max(up, heights[-1] + step) if heights else up)
    # Names pushed above the top are brought back, from the uppermost down.
    ceiling = high
    for position in reversed(range(len(heights))):
        heights[position] = min(heights[position], ceiling)
        ceiling = heights[position] - step
    edge = across[1] + 0.03 * (across[1] - across[0])
    line: dict[str, Any] = {"color": GREY, "linewidth": 0.7, "zorder": 2, "clip_on": False}
    for (name, right, up), height in zip(ordered, heights, strict=True):
        axes.plot([right, edge], [up, height], **line)
        axes.annotate(
            name,
            xy=(edge, height),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
        )
