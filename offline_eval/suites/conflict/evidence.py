"""Passages that agree with a belief or contradict it, made and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal

from ....guard.contracts import EntailmentModel, Generation, LanguageModel, ScoringLanguageModel
from ....guard.errors import KnowgateError, LanguageModelError
from ....guard.matching import same_answer
from ....guard.prompts import Prompt
from ....guard.text import clean_text
from ...judging.llm_judge import Criterion, NoVerdictError
from ...run import RowError
from ...run.calls import each_or_error, generate_each
from ...run.grouping import grouped
from .._prompts import PromptSet, option_likelihoods, token_counter
from ._rows import Check, EvidenceRow, names_answer
from .items import Candidate, ConflictItem, EvidenceKind

_TAGS = {"answer", "passage", "rationale"}
_MOST_NEW_WORDS = 400


def make_evidence(
    believed: Sequence[ConflictItem],
    prompts: PromptSet,
    kinds: Sequence[EvidenceKind],
    editor: LanguageModel | None = None,
) -> list[EvidenceRow]:
    """Make the passages of all kinds: rows by question, then kind.

    A passage that cannot be made says why.

    Args:
        believed: the questions, with what is believed.
        prompts: `edit_*` for the editor, `rationale` for the template.
        kinds: that are wanted.
        editor: a language model that writes what the data do not have (a plausible passage
            for an answer without one, the implausible one, rationales); None for data and
            template alone.
    """
    made = {EvidenceKind.NC: [_from_data(one, EvidenceKind.NC, one.own) for one in believed]}
    if {EvidenceKind.HPC, EvidenceKind.HPCE} & set(kinds):
        made[EvidenceKind.HPC] = _contradicting(believed, EvidenceKind.HPC, prompts, editor)
    if EvidenceKind.HPCE in kinds:
        made[EvidenceKind.HPCE] = _explained(believed, made[EvidenceKind.HPC], prompts, editor)
    if EvidenceKind.LPC in kinds:
        made[EvidenceKind.LPC] = _contradicting(believed, EvidenceKind.LPC, prompts, editor)
    of_kinds = [made[kind] for kind in kinds]
    return [row for rows in zip(*of_kinds, strict=True) for row in rows]


def _contradicting(
    believed: Sequence[ConflictItem],
    kind: EvidenceKind,
    prompts: PromptSet,
    editor: LanguageModel | None,
) -> list[EvidenceRow]:
    """Return the passages that the data have, and what an editor writes for the others."""
    rows: dict[int, EvidenceRow] = {}
    asked: dict[int, str] = {}
    for place, one in enumerate(believed):
        answer = one.rival if kind is EvidenceKind.HPC else one.absurd
        if answer is not None and answer.passages:
            rows[place] = _from_data(one, kind, answer)
        elif editor is not None and one.own.passages:
            slots = {"question": one.question, "passage": one.own.passages[0]}
            if kind is EvidenceKind.HPC:
                asked[place] = prompts["edit_hpc"].fill(answer=one.rival.text, **slots)
            else:
                answers = "; ".join(answer.text for answer in one.answers)
                asked[place] = prompts["edit_lpc"].fill(answers=answers, **slots)
    if editor is not None:
        for place, reply in zip(asked, generate_each(editor, [*asked.values()]), strict=True):
            rows[place] = _written(believed[place], kind, reply)
    reason = "neither the data nor an editor has such a passage"
    return [rows.get(n) or _made(one, kind, reason=reason) for n, one in enumerate(believed)]


def _explained(
    believed: Sequence[ConflictItem],
    plain: Sequence[EvidenceRow],
    prompts: PromptSet,
    editor: LanguageModel | None,
) -> list[EvidenceRow]:
    """Return the plausible passages with a rationale."""
    prompt = prompts["rationale" if editor is None else "edit_rationale"]
    # Without a passage there is nothing to argue for.
    texts = [
        prompt.fill(question=one.question, answer=row.answer or "", passage=row.passage)
        for one, row in zip(believed, plain, strict=True)
        if row.passage
    ]
    found: list[str | KnowgateError] = [*texts]
    if editor is not None:
        found = [_tagged(reply, "rationale") for reply in generate_each(editor, texts)]
    rationales, rows, kind = iter(found), [], EvidenceKind.HPCE
    for one, row in zip(believed, plain, strict=True):
        rationale = next(rationales) if row.passage else ""
        if isinstance(rationale, KnowgateError):
            rows.append(_failed(one, kind, rationale))
        elif not row.passage:
            reason = row.reason or "there is no plausible passage to explain"
            rows.append(_made(one, kind, reason=reason, error=row.error))
        else:
            changed = {"row_id": f"{one.key}/{kind.value}", "kind": kind}
            changed["passage"] = f"{row.passage}\n{rationale}"
            changed["made_by"] = "template" if editor is None else "editor"
            rows.append(row.model_copy(update=changed))
    return rows


_Reply = list[Generation] | KnowgateError


def _from_data(one: ConflictItem, kind: EvidenceKind, answer: Candidate) -> EvidenceRow:
    if not answer.passages:
        return _made(one, kind, reason="the data have no passage for this answer")
    return _made(
        one,
        kind,
        answer=answer.text,
        aliases=answer.aliases,
        passage=answer.passages[0],
        second=answer.passages[1] if len(answer.passages) > 1 else "",
    )


def _written(one: ConflictItem, kind: EvidenceKind, reply: _Reply) -> EvidenceRow:
    passage = _tagged(reply, "passage")
    answer: str | KnowgateError = one.rival.text
    aliases = one.rival.aliases
    if kind is EvidenceKind.LPC:
        answer, aliases = _tagged(reply, "answer"), ()
        names = [name for other in one.answers for name in other.names]
        if isinstance(answer, str) and any(same_answer(answer, name) for name in names):
            answer = LanguageModelError("the editor's answer is one that was taken")
    for found in (passage, answer):
        if isinstance(found, KnowgateError):
            return _failed(one, kind, found)
    return _made(one, kind, answer=answer, aliases=aliases, passage=passage, made_by="editor")


def _made(one: ConflictItem, kind: EvidenceKind, **fields: Any) -> EvidenceRow:
    return EvidenceRow(row_id=f"{one.key}/{kind.value}", key=one.key, kind=kind, **fields)


def _failed(one: ConflictItem, kind: EvidenceKind, error: KnowgateError) -> EvidenceRow:
    note = RowError.of(error)
    return _made(one, kind, reason="the editor failed", error=note, made_by="editor")


def _tagged(reply: _Reply, tag: str) -> str | KnowgateError:
    """The content of the last `<tag>` of a reply, up to its end or another tag of ours."""
    if isinstance(reply, KnowgateError):
        return reply
    parts = re.split(rf"<\s{{0,8}}{tag}\s{{0,8}}>", reply[0].text, flags=re.IGNORECASE)
    if len(parts) > 1:
        ends = rf"<\s{{0,8}}/?\s{{0,8}}(?:{'|'.join(sorted(_TAGS))})\s{{0,8}}>"
        content = clean_text(re.split(ends, parts[-1], maxsplit=1, flags=re.IGNORECASE)[0]).strip()
        if 0 < len(content.split()) <= _MOST_NEW_WORDS:
            return content
    return LanguageModelError(f"the editor's reply holds no usable <{tag}>")


_GIVEN = re.compile(r"<\s{0,8}given\s{0,8}>([^<]{0,80})", re.IGNORECASE)
_OUTCOMES = {"yields": ("yes", "no"), "plausibility": ("1", "2", "3", "4", "5")}
CriterionName = Literal["yields", "plausibility"]
# A passage that claims an answer to a question, as prompts name the three.
Claim = Mapping[str, str]


class PassageJudge:
    """A language model that judges passages, and reads free answers.

    Args:
        name: as checks call it.
        lm: that is asked, greedily.
        prompts: `judge_yields`, `judge_plausibility` and `judge_answers`.
    """

    def __init__(self, name: str, lm: LanguageModel, prompts: PromptSet) -> None:
        self.name, self._lm, self._prompts = name, lm, prompts

    def check(self, criterion: CriterionName, claims: Sequence[Claim]) -> list[Check]:
        """A verdict per claim, in order."""
        prompt = self._prompts[f"judge_{criterion}"]
        replies = generate_each(self._lm, [prompt.fill(**claim) for claim in claims])
        return [self._verdict(criterion, reply) for reply in replies]

    def answers(self, asked: Sequence[Mapping[str, str]]) -> list[tuple[str, ...] | KnowgateError]:
        """The letters of the options that each free reply gives.

        Args:
            asked: `question`, `options` (lettered, one a line) and `reply`.
        """
        prompt = self._prompts["judge_answers"]
        replies = generate_each(self._lm, [prompt.fill(**one) for one in asked])
        return [r if isinstance(r, KnowgateError) else _letters(r[0].text) for r in replies]

    def _verdict(self, criterion: CriterionName, reply: _Reply) -> Check:
        told: dict[str, Any]
        if isinstance(reply, KnowgateError):
            told = {"error": RowError.of(reply)}
        elif found := Criterion.parse_tag(reply[0].text, criterion, _OUTCOMES[criterion]):
            told = {"outcome": found.outcome, "reasoning": found.reasoning}
        else:
            told = {"error": RowError.of(NoVerdictError(criterion, calls=1))}
        return Check(judge=self.name, criterion=criterion, **told)


def _letters(reply: str) -> tuple[str, ...] | KnowgateError:
    for content in reversed(_GIVEN.findall(reply)):
        if content.strip(" .*`\"'").casefold() in ("none", "no", "neither"):
            return ()
        if found := set(re.findall(r"\b[A-D]\b", content.upper())):
            return tuple(sorted(found))
    return NoVerdictError("given", calls=1)


_LEAST, _MOST = 1, 5
# From here on an answer counts as plausible, up to there as implausible.
PLAUSIBLE_FROM, IMPLAUSIBLE_TO = 3.0, 2.0
# Two judges this far apart disagree.
DISAGREEMENT = 2


def likelihood_rank(value: float, others: Sequence[float]) -> float | None:
    """Share of the alternatives that a model finds less likely than an answer.

    Args:
        value: natural-log likelihood per token of the answer after the bare question.
        others: likewise of wrong answers of the same kind.

    Returns:
        In [0, 1], ties counted half; None without alternatives. Among values that all could
        be true it is spread evenly around .5; of what is no possible answer it is near 0.

    Example:
        >>> likelihood_rank(-1.0, [-2.0, -3.0, -0.5, -1.0])
        0.625
    """
    if not others:
        return None
    below = sum(other < value for other in others)
    equal = sum(other == value for other in others)
    return (below + equal / 2) / len(others)


def mean_verdict(checks: Sequence[Check]) -> float | None:
    """The mean of the plausibility verdicts, 1 to 5; None without any."""
    found = _numbers(checks)
    return sum(found) / len(found) if found else None


def disagree(checks: Sequence[Check]) -> bool:
    """Whether judges of the same passage differ: on yes or no, or by two or more of five."""
    numbers = _numbers(checks)
    words = {check.outcome for check in checks if check.criterion == "yields" and check.outcome}
    return len(words) > 1 or (len(numbers) > 1 and max(numbers) - min(numbers) >= DISAGREEMENT)


def _numbers(checks: Sequence[Check]) -> list[int]:
    return [
        int(check.outcome)
        for check in checks
        if check.criterion == "plausibility" and check.outcome is not None
    ]


_ENTAILED_FROM = 0.5


def validate(
    rows: Sequence[EvidenceRow],
    items: Mapping[str, ConflictItem],
    prompts: PromptSet,
    judges: Sequence[PassageJudge] = (),
    entailment: EntailmentModel | None = None,
    lm: LanguageModel | None = None,
) -> list[EvidenceRow]:
    """Check passages and say which are used: the rows with checks, plausibility and verdict.

    A passage is used where nothing speaks against it: no check says that it does not give its
    answer, and the judges' mean plausibility is at least 3 (HPC, HPCE) or at most 2 (LPC). By
    words alone nothing can be rejected: an answer can be given in others. Where judges are named
    and none of them has a verdict, the passage is not used.

    Args:
        rows: passages, in any order.
        items: their questions.
        prompts: of the model under test.
        judges: language models; two or more show where they disagree.
        entailment: whether the answer follows from the passage; None for words alone.
        lm: the model under test; where it scores options, an answer's plausibility is the rank
            of its likelihood among wrong answers of its kind.
    """
    there = [row for row in rows if row.answer is not None and row.passage]
    claims = [
        {"question": items[row.key].question, "answer": row.answer or "", "passage": row.passage}
        for row in there
    ]
    checks = [_offline(row, claim, entailment) for row, claim in zip(there, claims, strict=True)]
    for judge in judges:
        for found, verdict in zip(checks, judge.check("yields", claims), strict=True):
            found.append(verdict)
        apart = [place for place, row in enumerate(there) if row.kind is not EvidenceKind.NC]
        verdicts = judge.check("plausibility", [claims[place] for place in apart])
        for place, verdict in zip(apart, verdicts, strict=True):
            checks[place].append(verdict)
    ranks = _ranks(there, items, prompts["score_closed"], lm)
    names, done = {judge.name for judge in judges}, {}
    for row, found in zip(there, checks, strict=True):
        mean, reason = mean_verdict(found), _objection(row.kind, found, names)
        judged = None if mean is None else (mean - _LEAST) / (_MOST - _LEAST)
        value = ranks.get(row.row_id) if judged is None else judged
        source = "rank" if judged is None else "judges"
        decided = {
            "checks": tuple(found),
            "plausibility": value,
            "plausibility_from": "" if value is None else source,
            "accepted": not reason,
            "reason": reason,
        }
        done[row.row_id] = row.model_copy(update=decided)
    return [done.get(row.row_id, row) for row in rows]


def _offline(row: EvidenceRow, claim: Claim, entailment: EntailmentModel | None) -> list[Check]:
    found = []
    if names_answer(row.passage, [claim["answer"], *row.aliases]):
        found.append(Check(judge="words", criterion="yields", outcome="yes"))
    if entailment is not None:
        outcome, error = None, None
        try:
            hypothesis = f"{claim['question']} {claim['answer']}"
            verdict = entailment.entails(claim["passage"], hypothesis)
            outcome = "yes" if verdict >= _ENTAILED_FROM else "no"
        except KnowgateError as failed:
            error = RowError.of(failed)
        found.append(Check(judge="entailment", criterion="yields", outcome=outcome, error=error))
    return found


def _objection(kind: EvidenceKind, checks: Sequence[Check], judges: Set[str]) -> str:
    """Return why a passage is not used; empty if it is."""
    for criterion in ("yields",) if kind is EvidenceKind.NC else ("yields", "plausibility"):
        own = [c for c in checks if c.judge in judges and c.criterion == criterion]
        if judges and not any(check.outcome for check in own):
            return f"no judge has a verdict on {criterion}"
    yields = [check for check in checks if check.criterion == "yields"]
    if any(check.outcome == "no" for check in yields):
        return "checks disagree on the answer" if disagree(yields) else "does not give its answer"
    mean = mean_verdict(checks)
    if mean is not None and kind is EvidenceKind.LPC and mean > IMPLAUSIBLE_TO:
        return "too plausible"
    if mean is not None and kind is not EvidenceKind.LPC and mean < PLAUSIBLE_FROM:
        return "not plausible"
    return ""


def _ranks(
    rows: Sequence[EvidenceRow],
    items: Mapping[str, ConflictItem],
    prompt: Prompt,
    lm: LanguageModel | None,
) -> dict[str, float | None]:
    """Return the rank of each answer's likelihood, by row."""
    count = token_counter(lm)
    if count is None or not isinstance(lm, ScoringLanguageModel):
        return {}
    # Without others to compare with there is no rank, and no need to ask.
    by_key = grouped((row for row in rows if items[row.key].distractors), lambda row: row.key)

    def of_question(key: str) -> dict[str, float | None]:
        item, answers = items[key], {row.row_id: row.answer or "" for row in by_key[key]}
        texts = list(dict.fromkeys([*answers.values(), *item.distractors]))
        lengths = [max(1, count(f" {text}")) for text in texts]
        asked = [prompt.fill(question=item.question)]
        (logs,) = option_likelihoods(lm, asked, texts, lengths)
        if isinstance(logs, KnowgateError):
            raise logs
        values = dict(zip(texts, logs, strict=True))
        others = [values[text] for text in item.distractors if text not in answers.values()]
        return {name: likelihood_rank(values[text], others) for name, text in answers.items()}

    ranks: dict[str, float | None] = {}
    for found in each_or_error(lambda keys: list(map(of_question, keys)), list(by_key)):
        # Without a rank the passage is used all the same: only the number is missing.
        ranks |= {} if isinstance(found, KnowgateError) else found
    return ranks
