"""Plots of the signals and of the path: reliability, risk against coverage, p-values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..report import Colour, Plot
from ._quality import PathStep, SelectiveQuality, SignalQuality, StatedProbabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SMALLEST_DRAWN = 1e-6
_LINES = ((Colour.BLUE, "-"), (Colour.PURPLE, "--"), (Colour.INK, "-."))


def draw_reliability(quality: SignalQuality) -> Plot:
    """Stated probability against observed share, before and after calibration."""

    def draw(figure: Figure) -> None:
        axes = _square(figure)
        axes.plot([0, 1], [0, 1], color=Colour.GREY, linestyle=":", linewidth=1.5)
        if quality.before is not None:
            _bins(axes, quality.before, "as measured", Colour.GREY, "s", "--")
        _bins(axes, quality.after, "calibrated", Colour.BLUE, "o", "-")
        axes.set_xlabel(f"{quality.name}: what was stated")
        axes.set_ylabel("what came true, 95 % intervals")
        axes.legend(loc="upper left")

    raw = ""
    if quality.before is None:
        raw = " The raw values are no probabilities and cannot be drawn."
    return Plot(
        name=f"reliability-{quality.name}",
        title=f"Reliability of {quality.name}",
        caption="Questions that the calibrator was not fitted on, in bins of equal size. On the "
        f"dotted line, probabilities are what they say.{raw}",
        draw=draw,
        size=(5.0, 5.0),
        half=True,
    )


def draw_risk_coverage(
    qualities: Sequence[SelectiveQuality], steps: Sequence[PathStep], *, risk: float | None
) -> Plot | None:
    """Risk against coverage of each ranking, with the declared path and the chosen point."""
    seen = [step for step in steps if step.coverage is not None and step.risk is not None]
    if not qualities and not seen:
        return None
    heights = [r for quality in qualities for r, c in _curve(quality) if c >= 0.05]
    heights += [step.risk or 0.0 for step in seen]
    top = min(1.0, 1.15 * max([*heights, risk or 0.0, 0.05]))
    dots = "Dots: the points of the declared path, on the questions that certify. " if seen else ""

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        axes.set_xlim(0, 1)
        axes.set_ylim(0, top)
        for quality, (colour, style) in zip(qualities, _LINES, strict=False):
            points = _curve(quality)
            axes.plot(
                [c for _, c in points], [r for r, _ in points], color=colour, linestyle=style,
                linewidth=1.6, label=quality.name,
            )  # fmt: skip
        if seen:
            axes.plot(
                [step.coverage or 0.0 for step in seen], [step.risk or 0.0 for step in seen],
                color=Colour.VERMILION, marker=".", markersize=6, linestyle="none",
                label="the declared path",
            )  # fmt: skip
        if risk is not None:
            axes.axhline(
                risk, color=Colour.INK, linestyle=":", linewidth=1.5, label="bound on the risk"
            )
        for step in seen:
            if step.chosen:
                axes.plot(
                    [step.coverage or 0.0], [step.risk or 0.0], label="the chosen point", **_POINT
                )
        axes.set_xlabel("coverage: share of cases let through")
        axes.set_ylabel("risk: share of those answered wrongly")
        figure.legend(loc="outside lower center", ncols=1, fontsize=10)

    return Plot(
        name="risk-coverage",
        title="Risk against coverage",
        caption="Questions that the calibrators were not fitted on. Lines: a threshold on one "
        f"signal, or on the larger of both. {dots}The lower right corner is the ideal.",
        draw=draw,
        size=(5.0, 5.2),
        half=True,
    )


def draw_p_values(
    steps: Sequence[PathStep], *, delta: float, of_coverage: bool = False
) -> Plot | None:
    """The p-value at each point of the path, with the level and the chosen point.

    Args:
        steps: in the order of the test.
        delta: level of the test.
        of_coverage: the test is of the coverage, from lax to strict, at half the level;
            otherwise of the risk, from strict to lax.
    """
    if not steps:
        return None
    level = delta / 2 if of_coverage else delta
    name = "δ/2" if of_coverage else "δ"
    order = "from lax to strict" if of_coverage else "from strict to lax"
    passed_over = "Points at the start that let too few through to be certified are passed over. "
    if of_coverage:
        passed_over = ""
    tested_for = "too little passes" if of_coverage else "the risk is too high"

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        axes.set_yscale("log")
        _plot_steps(axes, steps)
        axes.axhline(
            level,
            color=Colour.VERMILION,
            linestyle="--",
            linewidth=1.5,
            label=f"{name} = {level:g}",
        )
        for step in steps:
            if step.chosen:
                axes.plot([step.number], [_drawn(step)], label="chosen", **_POINT)
        axes.set_xlim(0, len(steps) + 1)
        axes.set_ylim(_SMALLEST_DRAWN / 2, 2)
        axes.set_xlabel(f"point of the path, {order}")
        axes.set_ylabel(f"p-value of “{tested_for}”")
        figure.legend(loc="outside lower center", ncols=2, fontsize=10)

    return Plot(
        name="p-values",
        title="The test along the path",
        caption="Points are tested in the order declared beforehand, as long as the p-value stays "
        f"at or below {name}. The last one that does is chosen. {passed_over}"
        "Values below 0.000001 are drawn there.",
        draw=draw,
        size=(5.0, 5.2),
        half=True,
    )


def _plot_steps(axes: Axes, steps: Sequence[PathStep]) -> None:
    """Tested points as dots, the others as crosses."""
    for tested, marker, colour, words in (
        (True, "o", Colour.BLUE, "tested"),
        (False, "x", Colour.GREY, "not tested"),
    ):
        of = [step for step in steps if step.tested is tested]
        if of:
            numbers, p_values = [step.number for step in of], [_drawn(step) for step in of]
            axes.plot(
                numbers, p_values, marker=marker, color=colour, linestyle="none", markersize=5,
                label=words,
            )  # fmt: skip


def _drawn(step: PathStep) -> float:
    return max(_SMALLEST_DRAWN, step.p_value)


_POINT: dict[str, Any] = {
    "marker": "o",
    "markersize": 11,
    "markerfacecolor": "none",
    "markeredgecolor": Colour.INK,
    "markeredgewidth": 2,
    "linestyle": "none",
    "zorder": 5,
    "clip_on": False,
}


def _bins(
    axes: Axes, stated: StatedProbabilities, name: str, colour: str, marker: str, style: str
) -> None:
    bins = stated.diagram.bins
    shares = [found.share.value or 0.0 for found in bins]
    error = stated.calibration_error.value
    axes.errorbar(
        [found.mean_probability for found in bins],
        shares,
        yerr=[
            [share - (found.share.low or 0.0) for share, found in zip(shares, bins, strict=True)],
            [(found.share.high or 0.0) - share for share, found in zip(shares, bins, strict=True)],
        ],
        color=colour,
        marker=marker,
        markersize=5,
        linestyle=style,
        linewidth=1.5,
        elinewidth=1,
        capsize=2,
        clip_on=False,
        label=name if error is None else f"{name}: error {error:.3f}",
    )


def _curve(quality: SelectiveQuality) -> list[tuple[float, float]]:
    """Risk and coverage, thinned out to what can be seen."""
    pairs = list(zip(quality.curve.risks, quality.curve.coverages, strict=True))
    step = max(1, len(pairs) // 300)
    return pairs[::step] + ([] if (len(pairs) - 1) % step == 0 else pairs[-1:])


def _square(figure: Figure) -> Axes:
    axes: Axes = figure.subplots()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    return axes
