"""Which judge speaks for a run where there are several."""

from __future__ import annotations

from ..replies import GIVEN_JUDGE, RepliesRun
from ._detector_judge import DETECTOR
from ._estimate import ESTIMATE
from ._llm_judge import PREFIX


def judges_of(run: RepliesRun, criterion: str) -> tuple[str, ...]:
    """Names of the judges with a verdict on `criterion`, best first.

    Labels that came with the replies, then language models, then judges of the user's own,
    then the offline detector and the estimate; among equals those with more verdicts.
    """
    counts: dict[str, int] = {}
    for judgement in run.judgements.values():
        if judgement.criterion == criterion and judgement.outcome is not None:
            counts[judgement.judge] = counts.get(judgement.judge, 0) + 1
    return tuple(sorted(counts, key=lambda name: (_rank(name), -counts[name], name)))


def primary_judge(run: RepliesRun, criterion: str) -> str | None:
    """The judge whose verdicts the report leads with, None where there is no verdict."""
    found = judges_of(run, criterion)
    return found[0] if found else None


def _rank(name: str) -> int:
    if name == GIVEN_JUDGE:
        return 0
    if name.startswith(PREFIX):
        return 1
    return {DETECTOR: 3, ESTIMATE: 4}.get(name, 2)
