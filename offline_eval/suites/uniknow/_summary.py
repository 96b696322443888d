"""The numbers of a run of this suite, under the names of the report, and its plots."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....calibration import Interval
from ....guard.artefacts import Guarantee
from ...report.plots import Colour, Plot
from ...report.prose import Templates
from ...run.grouping import grouped, most_frequent
from ..parts import run_values
from ._cases import Knowledge
from ._metrics import (
    MethodMetrics,
    Outcome,
    beyond_rates,
    paired_difference,
    uniknow_metrics,
)
from .plan import UniKnowRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONTENT = tomllib.loads((Path(__file__).parent / "report.toml").read_text(encoding="utf-8"))
TEXTS = Templates(Path(__file__).parent / "report.txt")
# Name as in the rows, title, the paper's letter, what model and context know, what is wanted.
SITUATIONS: Sequence[Mapping[str, str]] = CONTENT["situations"]
_METHODS: Mapping[str, tuple[str, str]] = CONTENT["methods"]
_ORDER = {name: position for position, name in enumerate(_METHODS)}

_PUBLISHED = {
    **CONTENT["published"],
    "methods": {
        name: {"rely_nq": None, **found} for name, found in CONTENT["published"]["methods"].items()
    },
}
_PLAIN = re.compile(r"[A-Za-z0-9_@=.,+-][A-Za-z0-9_@=.,+ -]{0,47}")


def variant_of(method: str) -> tuple[str, str] | None:
    """Split the name of an ablation, as `lm_uniknow@abstention=0.25`; None for others.

    Example:
        >>> variant_of("lm_uniknow@abstention=0.25"), variant_of("naive")
        (('lm_uniknow', 'abstention=0.25'), None)
    """
    base, sign, variant = method.partition("@")
    return (base, variant) if sign and base and variant else None


def shown_method(name: str) -> tuple[str, str]:
    """Return the family of a method, `other` if it is not known, and what it does."""
    base, variant = variant_of(name) or (name, "")
    family, meaning = _METHODS.get(base, ("other", ""))
    return family, f"{base}, {variant}." if variant and meaning else meaning


def in_order(names: Iterable[str]) -> list[str]:
    """Sort the methods: those of the suite in its order, others by name, ablations last."""
    return sorted(
        set(names), key=lambda name: (variant_of(name) is not None, _ORDER.get(name, 99), name)
    )


def plain(name: str, position: int) -> str:
    """Return the name if it can be drawn in a plot, otherwise a number.

    Example:
        >>> plain("naive", 0), plain("<script>", 4)
        ('naive', 'method 5')
    """
    return name if _PLAIN.fullmatch(name) else f"method {position + 1}"


class UniKnowSummary:
    """All numbers of a run; the same run gives the same numbers.

    Args:
        run: what all this is computed from.

    Attributes:
        questions: in the run.
        groups: documents or subjects that the questions come from.
        knowledge: questions by what the model knows of them.
        failures: per method the failed rows by type of error, most frequent first.
        methods: by name, ablations last.
        differences: guard against base, against prompting and against the trained methods.
        beyond: per kind of context beyond the paper, by method.
        problems: contexts that could not be built, by kind.
    """

    def __init__(self, run: UniKnowRun) -> None:
        self.run = run
        known = {row.question_key: row.knowledge for row in run.rows}
        sides = Counter(known.values())
        self.questions = len(known)
        self.groups = len({(row.dataset, row.group) for row in run.rows})
        self.knowledge = {kind.value: sides[kind] for kind in Knowledge}
        self.failures = _failures(run)
        metrics = uniknow_metrics(run.rows, contexts=run.contexts)
        self.methods = {name: metrics[name] for name in in_order(metrics)}
        differences = (
            paired_difference(run.rows, method, base)
            for method, base in CONTENT["pairs"]
            if method in metrics and base in metrics
        )
        self.differences = [one for one in differences if one.cases]
        self.beyond = {
            kind: {name: by_method[name] for name in in_order(by_method)}
            for kind, by_method in beyond_rates(run.rows).items()
        }
        self.problems = Counter(problem.kind.value for problem in run.plan.problems)

    @property
    def promise(self) -> Guarantee | None:
        """The guarantee of the guards' policy; None where no guard took part."""
        return None if self.run.policy is None else self.run.policy.guarantee

    @property
    def main(self) -> dict[str, MethodMetrics]:
        """The methods without the ablations."""
        return {name: found for name, found in self.methods.items() if variant_of(name) is None}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        differences: dict[str, dict[str, Any]] = {}
        for found in self.differences:
            differences.setdefault(found.method, {})[found.base] = found.to_dict()
        values = {
            "questions": self.questions,
            "groups": self.groups,
            "knowledge": dict(self.knowledge),
            "rows": len(self.run.rows),
            "rows_planned": self.run.plan.rows,
            "failures": {name: dict(types) for name, types in self.failures.items()},
            "contexts_not_built": dict(self.problems),
            "methods_left_out": dict(self.run.manifest.left_out),
            "methods": {name: found.to_dict() for name, found in self.methods.items()},
            "differences": differences,
            "beyond": {
                kind.value: {name: rates.to_dict() for name, rates in by_method.items()}
                for kind, by_method in self.beyond.items()
            },
            "published": _PUBLISHED,
        }
        return run_values(self.run.manifest, values)


def _failures(run: UniKnowRun) -> dict[str, dict[str, int]]:
    # The type alone: a message may quote what was asked.
    failed = grouped((row for row in run.rows if row.error is not None), lambda row: row.method)
    return {
        name: most_frequent(str(row.error).partition(":")[0].strip() for row in failed[name])
        for name in in_order(failed)
    }


_MARKS = {
    "prompt only": ("o", Colour.GREY),
    "decoding": ("^", Colour.AMBER),
    "fine-tuned": ("s", Colour.BLUE),
    "guarded": ("D", Colour.VERMILION),
    "other": ("X", Colour.PURPLE),
}
# Height per method, and of axis and legend, in inches.
_LINE, _FRAME = 0.34, 1.0
_MARGIN = 0.03


def _plot(name: str, draw: Callable[[Figure], None], size: tuple[float, float]) -> Plot:
    return Plot(name=name, **CONTENT["plots"][name], draw=draw, size=size)


def situation_plot(methods: Mapping[str, MethodMetrics]) -> Plot | None:
    """Plot exact match by situation; None without methods."""
    if not methods:
        return None
    labels = _labels(methods)

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(SITUATIONS), sharey=True)
        for panel, situation in zip(panels, SITUATIONS, strict=True):
            for line, (name, found) in enumerate(methods.items()):
                _dot(panel, found.scenarios[situation["name"]]["em"], line, name)
            panel.set_xlim(-_MARGIN, 1 + _MARGIN)
            panel.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
            panel.set_title(f"{situation['title']}\n({situation['letter']})", fontsize=10)
            panel.grid(visible=False, axis="y")
        Plot.name_lines(panels[0], labels)

    return _plot("situations", draw, (8.4, _FRAME + _LINE * len(labels)))


def outcome_plot(methods: Mapping[str, MethodMetrics]) -> Plot | None:
    """Plot the outcomes of the cases as stacked bars; None without methods."""
    if not methods:
        return None
    labels = _labels(methods)

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        parts = [
            (
                words,
                Colour[colour],
                [found.outcomes[Outcome(outcome)].value or 0.0 for found in methods.values()],
            )
            for outcome, (_, words, colour) in CONTENT["outcomes"].items()
        ]
        Plot.draw_bars(axes, parts, labels)
        axes.set_xlabel("share of cases")
        figure.legend(loc="outside upper center", ncols=3)

    return _plot("outcomes", draw, (8.4, 1.35 + _LINE * len(labels)))


def rely_plot(methods: Mapping[str, MethodMetrics]) -> Plot | None:
    """Plot accuracy against reliability; None where neither is known."""
    known = [
        (label, shown_method(name)[0], acc, rely)
        for (name, found), label in zip(methods.items(), _labels(methods), strict=True)
        if (acc := found.overall["acc"].value) is not None
        and (rely := found.overall["rely"].value) is not None
    ]
    if not known:
        return None

    def draw(figure: Figure) -> None:
        axes: Axes = figure.subplots()
        values = [value for point in known for value in point[2:]]
        low, high = Plot.window(min(values) - 0.05, max(values) + 0.05, least=0.25, margin=_MARGIN)
        _iso_lines(axes, low, high)
        for family, (mark, colour) in _MARKS.items():
            own = [point for point in known if point[1] == family]
            if own:
                axes.plot(
                    [point[2] for point in own],
                    [point[3] for point in own],
                    marker=mark,
                    color=colour,
                    linestyle="none",
                    markersize=9,
                    markeredgecolor=Colour.PAPER,
                    zorder=5,
                    label=family,
                )
        named = [(f"{label}  {rely:.2f}", acc, rely) for label, _, acc, rely in known]
        Plot.name_points(axes, named, (low, high), (low, high))
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_aspect("equal")
        axes.set_xlabel("Acc: share of right answers")
        axes.set_ylabel("Rely: reliability")
        figure.legend(loc="outside upper center", ncols=5, handletextpad=0.2, columnspacing=1.2)

    return _plot("acc-rely", draw, (8.0, 6.2))


def _labels(methods: Mapping[str, MethodMetrics]) -> list[str]:
    return [plain(name, position) for position, name in enumerate(methods)]


def _dot(axes: Axes, interval: Interval, line: int, method: str) -> None:
    mark, colour = _MARKS[shown_method(method)[0]]
    Plot.draw_interval(axes, interval, line, marker=mark, colour=colour)


def _iso_lines(axes: Axes, low: float, high: float) -> None:
    for abstained in (0.0, 0.1, 0.25, 0.5):
        lift = abstained * (1 - abstained)
        axes.plot(
            [low, high],
            [low + lift, high + lift],
            color=Colour.INK if abstained == 0 else Colour.GREY,
            linestyle="-" if abstained == 0 else ":",
            linewidth=1.2,
            zorder=1,
        )
        if high - lift > low:
            axes.annotate(
                f"{abstained:.0%}",
                xy=(high - lift, high),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=9,
                annotation_clip=False,
            )
