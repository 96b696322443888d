"""The calibration report: a page for people, the same numbers for machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ...calibration import CalibrationRecord
from ...guard.files import atomic_writer, write_json
from ..report import Plot
from ._fit import Calibrated
from ._quality import (
    SelectiveQuality,
    SignalQuality,
    StatedProbabilities,
    selective_qualities,
    signal_quality,
)
from ._quality_plots import draw_p_values, draw_reliability, draw_risk_coverage
from ._rates import outcomes_under
from ._region_plot import draw_regions
from ._view import CalibrationView, calibration_view, promises_a_cost

CALIBRATION_REPORT_SCHEMA_VERSION = 1
_OWN = Path(__file__).parent / "templates"
_SHARED = Path(__file__).parent.parent / "report" / "templates"


@dataclass(frozen=True, slots=True)
class CalibrationReportPaths:
    """Where the two files of a report lie."""

    html: Path
    json: Path


@dataclass(frozen=True, slots=True)
class DrawnReport:
    """A report that is made, but not yet written.

    Attributes:
        page: the HTML.
        document: what the JSON beside it holds.
    """

    page: str
    document: dict[str, Any]

    def write(self, html: str | os.PathLike[str]) -> CalibrationReportPaths:
        """Write the page, and the JSON under its name with `.json`.

        Raises:
            InputError: a file cannot be written.
        """
        paths = CalibrationReportPaths(Path(html), Path(html).with_suffix(".json"))
        # The page last: where the JSON cannot be written there is no page without it.
        with atomic_writer(paths.html) as stream:
            stream.write(self.page)
            stream.flush()  # a full disk shows before the JSON is there
            write_json(paths.json, self.document)
        return paths


def write_calibration_report(
    found: Calibrated, html: str | os.PathLike[str]
) -> CalibrationReportPaths:
    """Write the report of a calibration: the page, and next to it the same as JSON.

    Args:
        found: what `calibrate_records` gave.
        html: where the page goes; the JSON has its name with `.json`.

    Raises:
        InputError: a file cannot be written.
    """
    return draw_calibration_report(found).write(html)


def draw_calibration_report(found: Calibrated) -> DrawnReport:
    """The report of a calibration, for `DrawnReport.write`."""
    guarantee = found.policy.guarantee
    risk = 0.0 if guarantee is None else guarantee.risk
    signals = [
        quality
        for name, choice in found.choices.items()
        if (quality := signal_quality(name, choice, found.unseen, seed=found.seed)) is not None
    ]
    rankings = selective_qualities(found.policy, found.unseen, risk=risk, seed=found.seed)
    page = _page(calibration_view(found, signals, rankings), _plots(found, signals, rankings))
    return DrawnReport(page, _document(found, signals, rankings))


def _plots(
    found: Calibrated, signals: Sequence[SignalQuality], rankings: Sequence[SelectiveQuality]
) -> tuple[list[Plot], list[Plot], list[Plot]]:
    """Plots of the policy, of the choice, and of the signals."""
    guarantee = found.policy.guarantee
    shown, which = found.test, "Questions kept back"
    if not shown:
        shown, which = found.certify, "Questions that the certificate rests on"
    of_policy = [draw_regions(found.policy, outcomes_under(found.policy, shown), which=which)]
    # A path tested for its costs has no place on an axis of wrong answers.
    of_wrong = not promises_a_cost(guarantee)
    bounds = guarantee is not None and (guarantee.certified or found.coverage is None)
    of_choice = [
        draw_risk_coverage(
            rankings,
            found.steps if of_wrong else (),
            risk=guarantee.risk if guarantee is not None and of_wrong and bounds else None,
        ),
        None
        if guarantee is None
        else draw_p_values(
            found.steps, delta=guarantee.delta, of_coverage=found.coverage is not None
        ),
    ]
    return (
        [plot for plot in of_policy if plot is not None],
        [plot for plot in of_choice if plot is not None],
        [draw_reliability(quality) for quality in signals],
    )


def _page(view: CalibrationView, plots: Sequence[Sequence[Plot]]) -> str:
    environment = Environment(
        loader=FileSystemLoader([_OWN, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Drawn here from numbers alone, hence safe.
    drawn = [[(plot, Markup(plot.svg())) for plot in group] for group in plots]  # noqa: S704
    return environment.get_template("calibration.html").render(view=view, plots=drawn)


def _document(
    found: Calibrated, signals: Sequence[SignalQuality], rankings: Sequence[SelectiveQuality]
) -> dict[str, Any]:
    """What the JSON holds; free of NaN."""
    return {
        "schema_version": CALIBRATION_REPORT_SCHEMA_VERSION,
        "kind": "calibration",
        "created_by": found.policy.created_by,
        "source": found.measured.name,
        "cases_sha256": found.measured.sha256,
        "population": found.measured.population,
        "seed": found.seed,
        "coverage_asked_for": found.coverage,
        "parts": {
            "learn": _part(found.learn),
            "certify": _part(found.certify),
            "test": _part(found.test),
        },
        "policy": found.policy.model_dump(mode="json"),
        "path": [asdict(step) for step in found.steps],
        "kept_back": None if found.rates is None else asdict(found.rates),
        "signals": {quality.name: _signal(quality) for quality in signals},
        "rankings": {quality.name: _ranking(quality) for quality in rankings},
        "warnings": list(found.warnings),
        "not_promised": list(found.not_promised),
    }


def _part(cases: Sequence[CalibrationRecord]) -> dict[str, int]:
    return {
        "cases": len(cases),
        "questions": len({case.question_id for case in cases}),
        "units": len({case.unit for case in cases}),
    }


def _signal(quality: SignalQuality) -> dict[str, Any]:
    return {
        "calibrator": quality.kind,
        "reason": quality.reason,
        "losses": dict(quality.losses),
        "cases": quality.cases,
        "failed": quality.failed,
        "auroc": quality.auroc,
        "before": None if quality.before is None else _stated(quality.before),
        "after": _stated(quality.after),
    }


def _stated(stated: StatedProbabilities) -> dict[str, Any]:
    return {
        "calibration_error": stated.calibration_error.to_dict(),
        "brier": stated.brier.to_dict(),
        "bins": [asdict(found) for found in stated.diagram.bins],
    }


def _ranking(quality: SelectiveQuality) -> dict[str, Any]:
    return {
        "cases": quality.cases,
        "aurc": quality.aurc.to_dict(),
        "excess_aurc": quality.excess.to_dict(),
        "augrc": quality.augrc.to_dict(),
        "coverage_at_risk": quality.coverage,
    }
