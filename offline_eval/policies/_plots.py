"""Plots of a calibration: reliability, and risk against coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...calibration import SelectiveCurve
from ..report.plots import DOTTED, POINT, Colour, Drawn, Plot, error_bars
from ._calibrated import WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LINES = ((Colour.BLUE, "-"), (Colour.PURPLE, "--"), (Colour.INK, "-."))


def draw_reliability(name: str, quality: Mapping[str, Any]) -> Plot:
    """Stated probability against observed share, before and after calibration."""
    drawn: list[Drawn] = [("plot", ([0, 1], [0, 1]), {"color": Colour.GREY, **DOTTED})]
    if quality["before"] is not None:
        drawn.append(_bins(quality["before"], "as measured", "s--", Colour.GREY))
    drawn.append(_bins(quality["after"], "calibrated", "o-", Colour.BLUE))
    caption = WORDS.text("reliability_caption", quality["before"] is not None)
    return Plot.of_shares(
        (f"reliability-{name}", f"Reliability of {name}", caption),
        drawn,
        (f"{name}: what was stated", "what came true, 95 % intervals"),
        legend="upper left",
    )


def _bins(stated: Mapping[str, Any], name: str, look: str, colour: Colour) -> Drawn:
    bins, error = stated["bins"], stated["calibration_error"].value
    shares = [one.share for one in bins]
    label = name if error is None else f"{name}: error {error:.3f}"
    style = {"color": colour, "markersize": 5, "linewidth": 1.5, "elinewidth": 1, "capsize": 2}
    at = [one.mean_probability for one in bins], [share.value or 0.0 for share in shares]
    return "errorbar", at, {**style, "fmt": look, "yerr": error_bars(shares), "label": label}


def draw_risk_coverage(
    rankings: Mapping[str, Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
    *,
    risk: float | None,
) -> Plot | None:
    """Risk against coverage of each ranking, with the declared path and the chosen point."""
    seen = [step for step in steps if step["coverage"] is not None and step["risk"] is not None]
    if not rankings and not seen:
        return None
    curves = {name: _curve(one["curve"]) for name, one in rankings.items()}
    heights = [r for curve in curves.values() for c, r in curve if c >= 0.05]
    top = min(1.0, 1.15 * max([*heights, *(step["risk"] for step in seen), risk or 0.0, 0.05]))
    drawn: list[Drawn] = [
        ("plot", _columns(points), {**_look(colour, style, 1.6), "label": name})
        for (name, points), (colour, style) in zip(curves.items(), _LINES, strict=False)
    ]
    if seen:
        dots = {"color": Colour.VERMILION, "marker": ".", "markersize": 6, "linestyle": "none"}
        places = _columns([(step["coverage"], step["risk"]) for step in seen])
        drawn.append(("plot", places, {**dots, "label": "the declared path"}))
    if risk is not None:
        style = {**_look(Colour.INK, ":"), "label": "bound on the risk"}
        drawn.append(("axhline", (risk,), style))
    drawn += [
        ("plot", ([step["coverage"]], [step["risk"]]), {**POINT, "label": "the chosen point"})
        for step in seen
        if step["chosen"]
    ]

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        for method, given, style in drawn:
            getattr(axes, method)(*given, **style)
        axes.set(xlim=(0, 1), ylim=(0, top))
        axes.set_xlabel("coverage: share of cases let through")
        axes.set_ylabel("risk: share of those answered wrongly")
        figure.legend(loc="outside lower center", fontsize=10)

    caption = WORDS.text("risk_coverage_caption", bool(seen))
    return Plot("risk-coverage", "Risk against coverage", caption, draw, (5.0, 5.2), half=True)


def _columns(points: Sequence[tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    return tuple(zip(*points, strict=True))


def _look(colour: Colour, style: str, width: float = 1.5) -> dict[str, Any]:
    return {"color": colour, "linestyle": style, "linewidth": width}


def _curve(found: SelectiveCurve) -> list[tuple[float, float]]:
    """Coverage and risk, thinned out to what can be seen."""
    pairs = list(zip(found.coverages, found.risks, strict=True))
    step = max(1, len(pairs) // 300)
    return pairs[::step] + ([] if (len(pairs) - 1) % step == 0 else pairs[-1:])
