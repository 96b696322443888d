"""The numbers of a run of this suite, under the names of the report, and its plots."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....guard.artefacts import Guarantee
from ...report.document import as_json
from ...report.plots import Colour, Plot
from ...report.prose import Templates
from ...run.grouping import grouped, most_frequent
from ..parts import run_values
from ._cases import Knowledge
from ._metrics import MethodMetrics, beyond_rates, paired_difference, uniknow_metrics
from .plan import UniKnowRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTENT = tomllib.loads((Path(__file__).parent / "report.toml").read_text(encoding="utf-8"))
TEXTS = Templates(Path(__file__).parent / "report.txt")
# Name as in the rows, title, the paper's letter, what model and context know, what is wanted.
SITUATIONS: Sequence[Mapping[str, str]] = CONTENT["situations"]
_METHODS: Mapping[str, tuple[str, str]] = CONTENT["methods"]
_ORDER = {name: position for position, name in enumerate(_METHODS)}
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    name: {"rely_nq": None, **found} for name, found in CONTENT["published"]["methods"].items()
}
_PLAIN = re.compile(r"[A-Za-z0-9_@=.,+-][A-Za-z0-9_@=.,+ -]{0,47}")
Methods = Mapping[str, MethodMetrics]


def shown_method(name: str) -> tuple[str, str]:
    """Return the family of a method, `other` if it is not known, and what it does."""
    base, _, variant = name.partition("@")
    family, meaning = _METHODS.get(base, ("other", ""))
    return family, f"{base}, {variant}." if variant and meaning else meaning


def in_order(names: Iterable[str]) -> list[str]:
    """Sort the methods: those of the suite in its order, others by name, ablations last."""
    return sorted(set(names), key=lambda name: ("@" in name, _ORDER.get(name, 99), name))


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
        main: the methods without the ablations.
        differences: guard against base, against prompting and against the trained methods: by
            both names the number of cases, and the intervals.
        beyond: per kind of context beyond the paper, by method.
        problems: contexts that could not be built, by kind.
    """

    def __init__(self, run: UniKnowRun) -> None:
        self.run, rows = run, run.rows
        known = {row.question_key: row.knowledge for row in rows}
        sides = Counter(known.values())
        self.questions = len(known)
        self.groups = len({(row.dataset, row.group) for row in rows})
        self.knowledge = {kind.value: sides[kind] for kind in Knowledge}
        # The type alone: a message may quote what was asked.
        failed = grouped((row for row in rows if row.error is not None), lambda row: row.method)
        self.failures = {
            name: most_frequent(str(row.error).partition(":")[0].strip() for row in failed[name])
            for name in in_order(failed)
        }
        metrics = uniknow_metrics(rows, contexts=run.contexts)
        self.methods = {name: metrics[name] for name in in_order(metrics)}
        self.main = {name: found for name, found in self.methods.items() if "@" not in name}
        differences = {
            (method, base): paired_difference(rows, method, base)
            for method, base in CONTENT["pairs"]
            if method in metrics and base in metrics
        }
        self.differences = {pair: found for pair, found in differences.items() if found[0]}
        self.beyond = {
            kind: {name: by_method[name] for name in in_order(by_method)}
            for kind, by_method in beyond_rates(rows).items()
        }
        self.problems = Counter(problem.kind.value for problem in run.plan.problems)

    @property
    def promise(self) -> Guarantee | None:
        """The guarantee of the guards' policy; None where no guard took part."""
        return None if self.run.policy is None else self.run.policy.guarantee

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        differences: dict[str, dict[str, Any]] = {}
        for (method, base), (cases, intervals) in self.differences.items():
            differences.setdefault(method, {})[base] = {"cases": cases, **intervals}
        values = {
            "questions": self.questions,
            "groups": self.groups,
            "knowledge": self.knowledge,
            "rows": len(self.run.rows),
            "rows_planned": self.run.plan.rows,
            "failures": self.failures,
            "contexts_not_built": self.problems,
            "methods_left_out": self.run.manifest.left_out,
            "methods": self.methods,
            "differences": differences,
            "beyond": self.beyond,
            "published": {**CONTENT["published"], "methods": PUBLISHED},
        }
        return run_values(self.run.manifest, as_json(values))


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


def plots(methods: Methods) -> dict[str, Plot]:
    """Return what can be drawn of some methods with cases, by the names of the plots."""
    # A name that no plot can hold becomes a number.
    labels = [
        name if _PLAIN.fullmatch(name) else f"method {number}"
        for number, name in enumerate(methods, start=1)
    ]
    height = _LINE * len(labels)
    drawn = {
        "situations": (_draw_situations, (8.4, _FRAME + height)),
        "outcomes": (_draw_outcomes, (8.4, 1.35 + height)),
        "acc-rely": (_draw_rely, (8.0, 6.2)),
    }
    return {
        name: Plot(name, **CONTENT["plots"][name], draw=partial(draw, methods, labels), size=size)
        for name, (draw, size) in (drawn if methods else {}).items()
    }


def _draw_situations(methods: Methods, labels: Sequence[str], figure: Figure) -> None:
    """Draw exact match by situation."""
    panels = figure.subplots(1, len(SITUATIONS), sharey=True)
    for panel, situation in zip(panels, SITUATIONS, strict=True):
        for line, (name, found) in enumerate(methods.items()):
            mark, colour = _MARKS[shown_method(name)[0]]
            share = found.scenarios[situation["name"]]["em"]
            Plot.draw_interval(panel, share, line, marker=mark, colour=colour)
        panel.set_xlim(-_MARGIN, 1 + _MARGIN)
        panel.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
        panel.set_title(f"{situation['title']}\n({situation['letter']})", fontsize=10)
        panel.grid(visible=False, axis="y")
    Plot.name_lines(panels[0], labels)


def _draw_outcomes(methods: Methods, labels: Sequence[str], figure: Figure) -> None:
    """Draw the outcomes of the cases as stacked bars."""
    axes = figure.subplots()
    parts = [
        (words, Colour[colour], [one.overall[outcome].value or 0.0 for one in methods.values()])
        for outcome, (_, words, colour) in CONTENT["outcomes"].items()
    ]
    Plot.draw_bars(axes, parts, labels)
    axes.set_xlabel("share of cases")
    figure.legend(loc="outside upper center", ncols=3)


def _draw_rely(methods: Methods, labels: Sequence[str], figure: Figure) -> None:
    """Draw accuracy against reliability, with a line for each share of abstentions."""
    axes = figure.subplots()
    points = [
        (label, found.overall["acc"].value or 0.0, found.overall["rely"].value or 0.0)
        for label, found in zip(labels, methods.values(), strict=True)
    ]
    values = [value for _, *point in points for value in point]
    low, high = Plot.window(min(values) - 0.05, max(values) + 0.05, least=0.25, margin=_MARGIN)
    line: dict[str, Any] = {"color": Colour.INK, "linewidth": 1.2, "zorder": 1}
    note: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
    for abstained in (0.0, 0.1, 0.25, 0.5):
        style = dict(line, color=Colour.GREY, linestyle=":") if abstained else dict(line)
        lift = abstained * (1 - abstained)
        axes.plot([low, high], [low + lift, high + lift], **style)
        if high - lift > low:
            at = (high - lift, high)
            axes.annotate(f"{abstained:.0%}", xy=at, fontsize=9, annotation_clip=False, **note)
    families = [shown_method(name)[0] for name in methods]
    mark: dict[str, Any] = {"linestyle": "none", "markersize": 9, "zorder": 5}
    for family, (marker, colour) in _MARKS.items():
        own = [point[1:] for point, other in zip(points, families, strict=True) if other == family]
        if own:
            edge: dict[str, Any] = {"markeredgecolor": Colour.PAPER, "label": family}
            axes.plot(*zip(*own, strict=True), marker=marker, color=colour, **mark, **edge)
    named = [(f"{label}  {rely:.2f}", acc, rely) for label, acc, rely in points]
    Plot.name_points(axes, named, (low, high), (low, high))
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.set(xlabel="Acc: share of right answers", ylabel="Rely: reliability")
    figure.legend(loc="outside upper center", ncols=5, handletextpad=0.2, columnspacing=1.2)
