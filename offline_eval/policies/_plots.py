"""Plots of the signals and of the path: reliability, risk against coverage, p-values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...guard.decision import Route
from ...guard.policy import Policy
from ..report.plots import DOTTED, POINT, Colour, Drawn, Plot, error_bars, histograms
from ._calibrated import WORDS
from ._rates import Outcome, PathStep, SelectiveQuality, SignalQuality, StatedProbabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SMALLEST_DRAWN = 1e-6
_LINES = ((Colour.BLUE, "-"), (Colour.PURPLE, "--"), (Colour.INK, "-."))


def draw_reliability(name: str, quality: SignalQuality) -> Plot:
    """Stated probability against observed share, before and after calibration."""
    drawn: list[Drawn] = [("plot", ([0, 1], [0, 1]), {"color": Colour.GREY, **DOTTED})]
    if quality.before is not None:
        drawn.append(_bins(quality.before, "as measured", "s--", Colour.GREY))
    drawn.append(_bins(quality.after, "calibrated", "o-", Colour.BLUE))
    caption = WORDS.text("reliability_caption", quality.before is not None)
    return Plot.of_shares(
        (f"reliability-{name}", f"Reliability of {name}", caption),
        drawn,
        (f"{name}: what was stated", "what came true, 95 % intervals"),
        legend="upper left",
    )


def _bins(stated: StatedProbabilities, name: str, look: str, colour: Colour) -> Drawn:
    shares, error = [one.share for one in stated.bins], stated.calibration_error.value
    label = name if error is None else f"{name}: error {error:.3f}"
    style = {"color": colour, "markersize": 5, "linewidth": 1.5, "elinewidth": 1, "capsize": 2}
    at = [one.mean_probability for one in stated.bins], [share.value or 0.0 for share in shares]
    return "errorbar", at, {**style, "fmt": look, "yerr": error_bars(shares), "label": label}


def draw_risk_coverage(
    qualities: Mapping[str, SelectiveQuality], steps: Sequence[PathStep], *, risk: float | None
) -> Plot | None:
    """Risk against coverage of each ranking, with the declared path and the chosen point."""
    seen = [
        (step.coverage, step.risk, step.chosen)
        for step in steps
        if step.coverage is not None and step.risk is not None
    ]
    if not qualities and not seen:
        return None
    curves = {name: _curve(quality) for name, quality in qualities.items()}
    heights = [r for curve in curves.values() for c, r in curve if c >= 0.05]
    top = min(1.0, 1.15 * max([*heights, *(step[1] for step in seen), risk or 0.0, 0.05]))
    drawn: list[Drawn] = [
        ("plot", _columns(points), {**_look(colour, style, 1.6), "label": name})
        for (name, points), (colour, style) in zip(curves.items(), _LINES, strict=False)
    ]
    if seen:
        dots = {"color": Colour.VERMILION, "marker": ".", "markersize": 6, "linestyle": "none"}
        drawn.append(("plot", _columns(seen)[:2], {**dots, "label": "the declared path"}))
    if risk is not None:
        style = {**_look(Colour.INK, ":"), "label": "bound on the risk"}
        drawn.append(("axhline", (risk,), style))
    drawn += [
        ("plot", ([coverage], [height]), {**POINT, "label": "the chosen point"})
        for coverage, height, chosen in seen
        if chosen
    ]
    return _path_plot(
        ("risk-coverage", "Risk against coverage", WORDS.text("risk_coverage_caption", bool(seen))),
        drawn,
        1,
        xlim=(0, 1),
        ylim=(0, top),
        xlabel="coverage: share of cases let through",
        ylabel="risk: share of those answered wrongly",
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
    name, level, order, tested_for = "δ", delta, "from strict to lax", "the risk is too high"
    if of_coverage:
        name, level, order, tested_for = "δ/2", delta / 2, "from lax to strict", "too little passes"
    looks: tuple[tuple[Callable[[PathStep], bool], dict[str, Any]], ...] = (
        (lambda step: step.tested, {"marker": "o", "color": Colour.BLUE, "label": "tested"}),
        (
            lambda step: not step.tested,
            {"marker": "x", "color": Colour.GREY, "label": "not tested"},
        ),
        (lambda step: step.chosen, {**POINT, "label": "chosen"}),
    )
    drawn: list[Drawn] = [
        ("plot", _columns(points), {"linestyle": "none", "markersize": 5, **look})
        for of, look in looks
        if (points := [(s.number, max(_SMALLEST_DRAWN, s.p_value)) for s in steps if of(s)])
    ]
    style = {**_look(Colour.VERMILION, "--"), "label": f"{name} = {level:g}"}
    return _path_plot(
        ("p-values", "The test along the path", WORDS.text("p_values_caption", name, of_coverage)),
        [*drawn, ("axhline", (level,), style)],
        2,
        yscale="log",
        xlim=(0, len(steps) + 1),
        ylim=(_SMALLEST_DRAWN / 2, 2),
        xlabel=f"point of the path, {order}",
        ylabel=f"p-value of “{tested_for}”",
    )


def _path_plot(
    words: tuple[str, str, str], drawn: Sequence[Drawn], legend_columns: int, **axis: Any
) -> Plot:
    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        for method, given, style in drawn:
            getattr(axes, method)(*given, **style)
        axes.set(**axis)
        figure.legend(loc="outside lower center", ncols=legend_columns, fontsize=10)

    return Plot(*words, draw, (5.0, 5.2), half=True)


def _columns(points: Sequence[tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    return tuple(zip(*points, strict=True))


def _look(colour: Colour, style: str, width: float = 1.5) -> dict[str, Any]:
    return {"color": colour, "linestyle": style, "linewidth": width}


def _curve(quality: SelectiveQuality) -> list[tuple[float, float]]:
    """Coverage and risk, thinned out to what can be seen."""
    pairs = list(zip(quality.curve.coverages, quality.curve.risks, strict=True))
    step = max(1, len(pairs) // 300)
    return pairs[::step] + ([] if (len(pairs) - 1) % step == 0 else pairs[-1:])


# More would make the page large, and hide each other.
_MOST_POINTS = 500
_BINS = 20
_HOLLOW = {"marker": "o", "facecolors": "none", "linewidths": 1.1, "edgecolors": Colour.GREY}
# Points that look alike, told apart by shape and by colour.
_KINDS: Mapping[str, tuple[Callable[[Outcome], bool], dict[str, Any]]] = {
    "abstained, nothing to give": (
        lambda o: not o.passes and not o.answerable,
        {"marker": ".", "color": Colour.GREY, "linewidths": 0},
    ),
    "abstained, though one was right": (lambda o: not o.passes and o.answerable, _HOLLOW),
    "context followed, right": (
        lambda o: o.route is Route.FOLLOW_CONTEXT and not o.wrong,
        {"marker": "o", "color": Colour.BLUE, "linewidths": 0, "alpha": 0.75},
    ),
    "answered from memory, right": (
        lambda o: o.route is Route.ANSWER and not o.wrong,
        {"marker": "^", "color": Colour.PURPLE, "linewidths": 0, "alpha": 0.75},
    ),
    "let through, wrong": (
        lambda o: o.wrong,
        {"marker": "x", "color": Colour.VERMILION, "linewidths": 1.6, "zorder": 4},
    ),
}


def draw_regions(policy: Policy, outcomes: Sequence[Outcome], *, which: str) -> Plot | None:
    """The three regions with the cases in them; None where nothing was measured.

    Without any confidence it is the distribution of relevance instead.

    Args:
        policy: whose thresholds bound the regions.
        outcomes: of the cases to show.
        which: cases these are, in words.
    """
    plane = any(outcome.confidence is not None for outcome in outcomes)
    shown = [
        o for o in outcomes if o.relevance is not None and (o.confidence is not None or not plane)
    ]
    if not shown:
        return None
    draw, rest = _plane if plane else _distribution, len(outcomes) - len(shown)
    return draw(policy, shown, which, rest)


def _plane(policy: Policy, shown: Sequence[Outcome], which: str, rest: int) -> Plot:
    drawn = shown
    if len(shown) > _MOST_POINTS:
        picked = np.random.default_rng(0).choice(len(shown), _MOST_POINTS, replace=False)
        drawn = [shown[i] for i in sorted(picked)]

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        axes.set(
            xlim=(0, 1),
            ylim=(0, 1),
            aspect="equal",
            xlabel="relevance: is the context enough?",
            ylabel="confidence: does the model know it?",
        )
        axes.grid(visible=False)
        _shade(axes, policy)
        for name, (of, style) in _KINDS.items():
            if members := [o for o in drawn if of(o)]:
                _scatter(axes, members, {**style, "label": f"{name} ({len(members)})"})
        figure.legend(loc="outside lower center", ncols=2, fontsize=10, handletextpad=0.4)

    caption = WORDS.text("plane_caption", which, len(drawn), len(shown), rest)
    return Plot("regions", "What happens where", caption, draw, (6.6, 7.2))


def _shade(axes: Axes, policy: Policy) -> None:
    tau_r = policy.relevance_threshold if policy.may_follow else None
    tau_p = policy.confidence_threshold if policy.may_answer else None
    left = 1.0 if tau_r is None else tau_r
    if tau_r is not None:
        name = f"follow the context, from {tau_r:.2f}"
        axes.axvspan(tau_r, 1, color=Colour.BLUE, alpha=0.10, linewidth=0, label=name)
        axes.axvline(tau_r, color=Colour.BLUE, linewidth=1.5)
    if tau_p is not None:
        name = f"answer from memory, from {tau_p:.2f}"
        style: dict[str, Any] = {"color": Colour.PURPLE, "alpha": 0.12, "linewidth": 0}
        axes.fill_between([0, left], tau_p, 1, label=name, **style)
        axes.plot([0, left], [tau_p, tau_p], color=Colour.PURPLE, linewidth=1.5, linestyle="--")


def _scatter(axes: Axes, members: Sequence[Outcome], style: dict[str, Any]) -> None:
    places = Counter((round(o.relevance or 0.0, 3), round(o.confidence or 0.0, 3)) for o in members)
    base = 44.0 if style["marker"] == "." else 34.0
    sizes = [base * min(count, 40) ** 0.75 for count in places.values()]
    across, up = zip(*places, strict=True)
    axes.scatter(across, up, s=sizes, **{"clip_on": False, "zorder": 3, **style})


def _distribution(policy: Policy, shown: Sequence[Outcome], which: str, rest: int) -> Plot:
    threshold = policy.relevance_threshold if policy.may_follow else None
    right = [o.relevance or 0.0 for o in shown if o.case.context_right]
    wrong = [o.relevance or 0.0 for o in shown if not o.case.context_right]
    return histograms(
        ("regions", "What happens where", WORDS.text("line_caption", which, threshold, rest)),
        (("right if followed", Colour.BLUE, right), ("wrong if followed", Colour.VERMILION, wrong)),
        np.linspace(0, 1, _BINS + 1).tolist(),
        "relevance (calibrated)",
        threshold,
    )
