"""A suite of sums in one file: what `knowgate` gives to a suite that is not built in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from knowgate.calibration import Interval
from knowgate.offline_eval.report.document import Document, Section
from knowgate.offline_eval.report.tables import Table
from knowgate.offline_eval.run import RowError, Stored
from knowgate.offline_eval.suites import Suite, SuiteSettings
from knowgate.offline_eval.suites.base import SuiteRun
from knowgate.offline_eval.suites.parts import System


class Settings(SuiteSettings):
    """What decides the rows."""

    upto: int = Field(4, description="The largest summand.", ge=1)
    signs: tuple[Literal["plus", "minus"], ...] = Field(("plus",), description="Operations")
    data: Path | None = Field(None, description="A file that the run depends on.")


class Row(Stored):
    """A line of `rows.jsonl`."""

    row_id: str
    answer: str | None = None
    right: bool | None = None
    error: RowError | None = None


class Sum(BaseModel):
    """One sum."""

    case_id: str
    question: str
    answer: str


class Summary(BaseModel):
    """The numbers."""

    accuracy: Interval
    settings: dict[str, object]


class Sums(Suite[Settings, Sum, Row, Summary]):
    """Sums of small numbers.

    Example: `knowgate eval python:arithmetic:SUMS --set upto=9 --out run`
    """

    name, settings, row, batch_size = "sums", Settings, Row, 4

    def cases(self, settings: Settings) -> Sequence[Sum]:
        """All sums of two numbers."""
        numbers = range(1, settings.upto + 1)
        found = []
        for sign, do in (("plus", int.__add__), ("minus", int.__sub__)):
            if sign in settings.signs:
                found += [
                    Sum(case_id=f"{a}-{sign}-{b}", question=f"{a} {sign} {b}", answer=str(do(a, b)))
                    for a in numbers
                    for b in numbers
                ]
        return found

    def answer(self, cases: Sequence[Sum], system: System) -> list[Row]:
        """Ask the model all questions of the batch."""
        said = [row[0].text.strip() for row in system.model.generate([c.question for c in cases])]
        return [
            Row(row_id=self.row_id(case, system.name), answer=text, right=text == case.answer)
            for case, text in zip(cases, said, strict=True)
        ]

    def score(self, run: SuiteRun[Row]) -> Summary:
        """Share of right answers; failures count as wrong."""
        right = sum(bool(row.right) for row in run.rows)
        accuracy = Interval.wilson(right, len(run.rows))
        return Summary(accuracy=accuracy, settings=run.manifest.settings)

    def report(self, summary: Summary) -> Document:
        """One number."""
        told = Table.of_figures([("Accuracy", summary.accuracy, "Right answers among all sums.")])
        sections = [Section("Results", (told,)), Section.of_run(summary.settings, (), "")]
        values = summary.model_dump(mode="json")
        return Document("sums", "Sums", "", ["Sums were asked."], [], sections, values)


SUMS = Sums()
