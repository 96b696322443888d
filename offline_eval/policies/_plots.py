"""Plots of the signals and of the path: reliability, risk against coverage, p-values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...guard.decision import Route
from ...guard.policy import Policy
from ..report.plots import Colour, Plot
from ._calibrated import WORDS
from ._rates import Outcome, PathStep, SelectiveQuality, SignalQuality, StatedProbabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SMALLEST_DRAWN = 1e-6
_LINES = ((Colour.BLUE, "-"), (Colour.PURPLE, "--"), (Colour.INK, "-."))


def draw_reliability(name: str, quality: SignalQuality) -> Plot:
    """Stated probability against observed share, before and after calibration."""

    def draw(figure: Figure) -> None:
        axes = _square(figure)
        axes.plot([0, 1], [0, 1], color=Colour.GREY, linestyle=":", linewidth=1.5)
        if quality.before is not None:
            _bins(axes, quality.before, "as measured", Colour.GREY, "s", "--")
        _bins(axes, quality.after, "calibrated", Colour.BLUE, "o", "-")
        axes.set_xlabel(f"{name}: what was stated")
        axes.set_ylabel("what came true, 95 % intervals")
        axes.legend(loc="upper left")

    return Plot(
        name=f"reliability-{name}",
        title=f"Reliability of {name}",
        caption=WORDS.text("reliability_caption", quality.before is not None),
        draw=draw,
        size=(5.0, 5.0),
        half=True,
    )


def draw_risk_coverage(
    qualities: Mapping[str, SelectiveQuality], steps: Sequence[PathStep], *, risk: float | None
) -> Plot | None:
    """Risk against coverage of each ranking, with the declared path and the chosen point."""
    seen = [step for step in steps if step.coverage is not None and step.risk is not None]
    if not qualities and not seen:
        return None
    heights = [r for quality in qualities.values() for r, c in _curve(quality) if c >= 0.05]
    heights += [step.risk or 0.0 for step in seen]
    top = min(1.0, 1.15 * max([*heights, risk or 0.0, 0.05]))

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        axes.set_xlim(0, 1)
        axes.set_ylim(0, top)
        for (name, quality), (colour, style) in zip(qualities.items(), _LINES, strict=False):
            points = _curve(quality)
            axes.plot(
                [c for _, c in points], [r for r, _ in points], color=colour, linestyle=style,
                linewidth=1.6, label=name,
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
        caption=WORDS.text("risk_coverage_caption", bool(seen)),
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
        caption=WORDS.text("p_values_caption", name, of_coverage),
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
    bins = stated.bins
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


# More would make the page large, and hide each other.
_MOST_POINTS = 500
_BINS = 20


@dataclass(frozen=True, slots=True)
class _Kind:
    """Points that look alike, distinguished by shape and by colour."""

    name: str
    of: Callable[[Outcome], bool]
    style: dict[str, Any]


_HOLLOW = {"facecolors": "none", "linewidths": 1.1}
_KINDS = (
    _Kind(
        "abstained, nothing to give",
        lambda o: not o.passes and not o.answerable,
        {"marker": ".", "color": Colour.GREY, "linewidths": 0},
    ),
    _Kind(
        "abstained, though one was right",
        lambda o: not o.passes and o.answerable,
        {"marker": "o", "edgecolors": Colour.GREY, **_HOLLOW},
    ),
    _Kind(
        "context followed, right",
        lambda o: o.route is Route.FOLLOW_CONTEXT and not o.wrong,
        {"marker": "o", "color": Colour.BLUE, "linewidths": 0, "alpha": 0.75},
    ),
    _Kind(
        "answered from memory, right",
        lambda o: o.route is Route.ANSWER and not o.wrong,
        {"marker": "^", "color": Colour.PURPLE, "linewidths": 0, "alpha": 0.75},
    ),
    _Kind(
        "let through, wrong",
        lambda o: o.wrong,
        {"marker": "x", "color": Colour.VERMILION, "linewidths": 1.6},
    ),
)  # fmt: skip


def draw_regions(policy: Policy, outcomes: Sequence[Outcome], *, which: str) -> Plot | None:
    """The three regions with the cases in them; None where nothing was measured.

    Without any confidence it is the distribution of relevance instead.

    Args:
        policy: whose thresholds bound the regions.
        outcomes: of the cases to show.
        which: cases these are, in words.
    """
    if any(outcome.confidence is not None for outcome in outcomes):
        return _plane(policy, outcomes, which)
    return _line(policy, outcomes, which)


def _plane(policy: Policy, outcomes: Sequence[Outcome], which: str) -> Plot | None:
    shown = [o for o in outcomes if o.relevance is not None and o.confidence is not None]
    if not shown:
        return None
    rest = len(outcomes) - len(shown)
    drawn = _sampled(shown)

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_aspect("equal")
        axes.grid(visible=False)
        _shade(axes, policy)
        for kind in _KINDS:
            _scatter(axes, kind, [o for o in drawn if kind.of(o)])
        axes.set_xlabel("relevance: is the context enough?")
        axes.set_ylabel("confidence: does the model know it?")
        figure.legend(loc="outside lower center", ncols=2, fontsize=10, handletextpad=0.4)

    return Plot(
        name="regions",
        title="What happens where",
        caption=WORDS.text("plane_caption", which, len(drawn), len(shown), rest),
        draw=draw,
        size=(6.6, 7.2),
    )


def _shade(axes: Axes, policy: Policy) -> None:
    tau_r = policy.relevance_threshold if policy.may_follow else None
    tau_p = policy.confidence_threshold if policy.may_answer else None
    left = 1.0 if tau_r is None else tau_r
    if tau_r is not None:
        axes.axvspan(tau_r, 1, color=Colour.BLUE, alpha=0.10, linewidth=0)
        axes.axvline(tau_r, color=Colour.BLUE, linewidth=1.5)
        _name(axes, "follow the context", ((1 + tau_r) / 2, 0.5), 1 - tau_r)
    if tau_p is not None:
        axes.fill_between([0, left], tau_p, 1, color=Colour.PURPLE, alpha=0.12, linewidth=0)
        axes.plot([0, left], [tau_p, tau_p], color=Colour.PURPLE, linewidth=1.5, linestyle="--")
        _name(axes, "answer from memory", (left / 2, (1 + tau_p) / 2), left)
    lower = 1.0 if tau_p is None else tau_p
    _name(axes, "abstain", (left / 2, lower / 2), left if lower > 0.05 else 0.0)
    for edge, value in (
        (axes.secondary_xaxis("top"), tau_r),
        (axes.secondary_yaxis("right"), tau_p),
    ):
        edge.set_ticks([] if value is None else [value], [] if value is None else [f"{value:.2f}"])
        edge.tick_params(length=3)
        for spine in edge.spines.values():
            spine.set_visible(False)


def _name(axes: Axes, words: str, at: tuple[float, float], width: float) -> None:
    """The name of a region in its middle, where there is room for it."""
    if width < 0.02 * len(words):
        return
    # Beneath the points, which must not be hidden.
    axes.text(
        *at, words, ha="center", va="center", fontsize=12, fontweight="bold", alpha=0.55, zorder=2
    )


def _scatter(axes: Axes, kind: _Kind, members: Sequence[Outcome]) -> None:
    if not members:
        return
    places = Counter((round(o.relevance or 0.0, 3), round(o.confidence or 0.0, 3)) for o in members)
    base = 34.0 if kind.style["marker"] != "." else 44.0
    sizes = [base * min(count, 40) ** 0.75 for count in places.values()]
    axes.scatter(
        [x for x, _ in places],
        [y for _, y in places],
        s=sizes,
        label=f"{kind.name} ({len(members)})",
        clip_on=False,
        zorder=3 if kind.style["marker"] != "x" else 4,
        **kind.style,
    )


def _sampled(outcomes: Sequence[Outcome]) -> list[Outcome]:
    if len(outcomes) <= _MOST_POINTS:
        return list(outcomes)
    picked = np.random.default_rng(0).choice(len(outcomes), _MOST_POINTS, replace=False)
    return [outcomes[i] for i in sorted(picked)]


def _line(policy: Policy, outcomes: Sequence[Outcome], which: str) -> Plot | None:
    shown = [o for o in outcomes if o.relevance is not None]
    if not shown:
        return None
    right = [o.relevance or 0.0 for o in shown if o.case.context_right]
    wrong = [o.relevance or 0.0 for o in shown if not o.case.context_right]
    threshold = policy.relevance_threshold if policy.may_follow else None

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, 1, sharex=True, sharey=True)
        edges = np.linspace(0, 1, _BINS + 1).tolist()
        for panel, values, name, colour in (
            (panels[0], right, "right if followed", Colour.BLUE),
            (panels[1], wrong, "wrong if followed", Colour.VERMILION),
        ):
            panel.hist(values, bins=edges, color=colour, edgecolor="none", rwidth=0.9)
            panel.set_title(f"{name} ({len(values)})", loc="left", fontsize=11)
            panel.set_ylabel("cases")
            panel.yaxis.get_major_locator().set_params(integer=True, nbins=4)
            panel.grid(visible=False, axis="x")
            if threshold is not None:
                panel.axvline(threshold, color=Colour.INK, linestyle="--", linewidth=1.5)
        panels[1].set_xlabel("relevance (calibrated)")
        panels[1].set_xlim(0, 1)

    rest = len(outcomes) - len(shown)
    return Plot(
        name="regions",
        title="What happens where",
        caption=WORDS.text("line_caption", which, threshold, rest),
        draw=draw,
        size=(7.4, 4.2),
    )
