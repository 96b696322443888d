"""From the verdicts of KnowOrNot's evaluated documents to judgements."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...adapters.knowornot import EvaluationSpec, Verdict
from ...guard import InputError
from ..judges import ESTIMATE
from ..ookb import RowError
from ..replies import ABSTENTION, GIVEN_JUDGE, Judgement, ReplyRow
from ._knowornot_experiments import Judged, QuestionKey
from ._knowornot_names import judge_of, tags_as_text


def judge(
    documents: Sequence[Judged], replies: Mapping[QuestionKey, ReplyRow]
) -> tuple[list[dict[str, Any]], list[Judgement]]:
    """What the evaluated documents of one experiment made of its replies.

    The first evaluator of a criterion is judge `given`; a second one, with another model
    or prompt, is `given:<model>`; judges of ours keep their names.

    Args:
        documents: in the order in which they were named.
        replies: of the experiment.

    Returns:
        How it was judged, JSON-ready, one entry per document and criterion; and the
        judgements.

    Raises:
        InputError: two verdicts of one evaluator contradict each other.
    """
    judging = _Judging()
    for document in documents:
        for key, verdict in document.verdicts:
            judging.add(document, replies[key].reply_id, verdict)
        judging.keep_specs(document)
    return judging.specs, list(judging.judgements.values())


@dataclass(slots=True)
class _Judging:
    specs: list[dict[str, Any]] = field(default_factory=list)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    _evaluators: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)

    def add(self, document: Judged, reply_id: str, verdict: Verdict) -> None:
        criterion = verdict.evaluation_name
        spec = document.specs.get(criterion)
        name = self._judge(criterion, spec)
        outcome = verdict.evaluation_outcome.strip()
        if criterion == ABSTENTION and outcome.casefold() in ("yes", "no"):
            outcome = outcome.casefold()
        content = spec.evaluation_prompt.content if spec else ""
        judgement = Judgement(
            judgement_id=f"{reply_id}/{criterion}/{name}",
            reply_id=reply_id,
            judge=name,
            criterion=criterion,
            outcome=outcome or None,
            reasoning=tags_as_text(verdict.additional_tags_info),
            estimate=name == ESTIMATE,
            judge_sha256=hashlib.sha256(content.encode()).hexdigest() if content else "",
            error=None if outcome else RowError(type="NoOutcome", detail="logged without one"),
        )
        known = self.judgements.setdefault(judgement.judgement_id, judgement)
        if known.outcome != judgement.outcome:
            raise InputError(
                f"two verdicts of one judge on {criterion[:60]!r} contradict each other",
                where=document.where,
                mend="import evaluations of one output by one judge into different folders",
            )

    def keep_specs(self, document: Judged) -> None:
        """Note how a document was judged, for writing it again."""
        times: dict[str, str] = {}
        for _, verdict in document.verdicts:
            times.setdefault(verdict.evaluation_name, verdict.evaluation_timestamp)
        for criterion, spec in document.specs.items():
            entry = {
                **spec.model_dump(mode="json"),
                "judge": self._judge(criterion, spec),
                "path_to_store": document.path_to_store,
                "first_timestamp": times.get(criterion, ""),
            }
            same = {"evaluation_name": criterion, "judge": entry["judge"]}
            if not any(same.items() <= kept.items() for kept in self.specs):
                self.specs.append(entry)

    def _judge(self, criterion: str, spec: EvaluationSpec | None) -> str:
        model, prompt = (spec.evaluator_model, spec.evaluation_prompt.content) if spec else ("", "")
        ours = judge_of(model)
        if ours is not None:
            return ours
        known = self._evaluators.setdefault(criterion, {})
        if (model, prompt) not in known:
            name, number = GIVEN_JUDGE, 1
            while name in known.values():
                name = f"{GIVEN_JUDGE}:{model}" + (f"·{number}" if number > 1 else "")
                number += 1
            known[model, prompt] = name
        return known[model, prompt]
