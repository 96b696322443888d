"""Where a policy sends questions: its regions, with measured cases as points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...guard.decision import Route
from ...guard.policy import Policy
from ..report import Colour, Plot
from ._rates import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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

    notes = ""
    if len(drawn) < len(shown):
        notes += f" {len(drawn)} of {len(shown)} cases are drawn, picked by chance."
    if rest:
        notes += f" Not drawn, because a signal failed: {rest}."
    return Plot(
        name="regions",
        title="What happens where",
        caption=f"{which}. Each point is a case; a larger one stands for several at the same "
        "place. A context is followed to the right of its threshold; to the left, the model "
        f"answers from memory above its own, and abstains below.{notes}",
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
    notes = f" Not drawn, because relevance failed: {rest}." if rest else ""
    if threshold is not None:
        notes = f" Cases right of the dashed line, {threshold:.3f}, pass.{notes}"
    return Plot(
        name="regions",
        title="What happens where",
        caption=f"{which}. No confidence was measured, so relevance alone decides.{notes}",
        draw=draw,
        size=(7.4, 4.2),
    )
