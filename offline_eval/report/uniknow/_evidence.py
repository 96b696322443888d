"""What a report of this suite is made from: the checked run in the form the metrics take."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....guard import Guarantee
from ...uniknow._artefacts import SourceFile, StoredCase
from ...uniknow._counts import MethodRow
from ...uniknow._reading import read_uniknow_run


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run as the report sees it.

    Attributes:
        rows: in the order of the run, as `uniknow_metrics` takes them.
        rows_planned: more than there are in a run cut short.
        cases: that the methods answer, by id without the method.
        problems: contexts that could not be built, counted by kind.
        left_out: methods that the model does not allow, with the reason.
        created_by: program and version that began the run.
        settings: of the run, as stored.
        inputs: files it was made from.
        promise: what the guards' policy promises, None where none took part.
    """

    rows: tuple[MethodRow, ...]
    rows_planned: int
    cases: Mapping[str, StoredCase]
    problems: Mapping[str, int]
    left_out: Mapping[str, str]
    created_by: str
    settings: Mapping[str, Any]
    inputs: tuple[SourceFile, ...]
    promise: Guarantee | None = None

    def contexts(self) -> dict[str, str]:
        """The text of each case's context."""
        return {key: "\n\n".join(case.passages) for key, case in self.cases.items()}


def read_evidence(folder: str | os.PathLike[str]) -> Evidence:
    """The evidence of a run folder, finished or not.

    Raises:
        InputError: a file is missing, broken or written by a newer knowgate, or no reply
            is there yet; names file and line.
    """
    run = read_uniknow_run(folder)
    return Evidence(
        rows=run.rows,
        rows_planned=run.plan.rows,
        cases=run.cases,
        problems=Counter(problem.kind.value for problem in run.plan.problems),
        left_out=run.manifest.left_out,
        created_by=run.manifest.created_by,
        settings=run.manifest.settings,
        inputs=run.manifest.inputs,
        promise=None if run.policy is None else run.policy.guarantee,
    )
