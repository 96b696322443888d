"""`knowgate apply`: a policy, a scorer or an abstention rule over the lines of a file."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator, model_validator

from ...guard import Guard
from ...guard.abstention import Citation
from ...guard.abstention.detector import load_rule
from ...guard.decision import Decision, Reason
from ...guard.errors import FingerprintMismatchError
from ...guard.files import atomic_writer, read_jsonl
from ...guard.fingerprint import aggregator as require_aggregator
from ...guard.policy import Policy, default_calibrator
from ...guard.read_models import check_model
from ...guard.routing import Signals, decide_route
from ...guard.signals.relevance import load_scorer
from ...guard.signals.relevance.registry import DEFAULT_SCORER, completed_scorer
from ...guard.text import raw_text
from ..run.grouping import batched
from ..run.measured_run import measuring_guard
from ._console import json_line, out, print_figures, progress_bar
from ._options import prints_figures, reject

_LINES_PER_BATCH = 32
# What the guard sees of a question and its passages, and no line of signals has.
_NOT_LOGGED = {"answerability", "timings", "kept", "scores", "views"}
_FAULTS: Mapping[str, str] = {
    Reason.INVALID_INPUT: "the question is empty",
    Reason.UNSUPPORTED_LANGUAGE: "unsupported language",
}


def _probability(value: float) -> float:
    if math.isfinite(value) and not 0 <= value <= 1:
        raise ValueError("not within [0, 1]")
    return value


Probability = Annotated[float, AfterValidator(_probability)]


class _Line(BaseModel):
    """One line of the input; an `id` is passed on."""

    model_config = ConfigDict(extra="ignore", strict=True)

    id: Any = None

    @field_validator("id")
    @classmethod
    def _is_json(cls, value: Any) -> Any:
        json.dumps(value, allow_nan=False)
        return value


class _Pair(_Line):
    """A question with its passages: texts, or objects with one."""

    question: str
    passages: list[Any]

    @field_validator("passages")
    @classmethod
    def _are_texts(cls, passages: list[Any]) -> list[Any]:
        for index, one in enumerate(passages):
            # An empty text is one, and gets no score; an object without any is a mistake.
            if raw_text(one) is None:
                raise ValueError(f"passages[{index}] is not text")
        return passages


class _Signals(_Line):
    """What a guard measured of a question; null or NaN where it failed."""

    relevance: Probability | None = None
    confidence: Probability | None = None
    conflict: bool | None = None
    nothing_retrieved: bool = False
    relevance_stage: Literal["cheap", "costly", "fallback"] | None = None

    @model_validator(mode="after")
    def _has_relevance(self) -> Self:
        if not self.nothing_retrieved and "relevance" not in self.model_fields_set:
            raise ValueError("field 'relevance' is missing")
        return self


class _Reply(_Line):
    """A reply, and what is known beside it."""

    response: str
    question: str | None = None
    citation: Any = Citation.UNKNOWN


_HINTS: Mapping[type[_Line], str] = {
    _Pair: 'each line needs "question" (text) and "passages" (a list of texts)',
    _Signals: '"relevance" and "confidence" are numbers in [0, 1] or null, "conflict" is a bool '
    "or null",
    _Reply: 'each line needs "response" (text); "question" (text) and "citation" may be there',
}
LineT = TypeVar("LineT", bound=_Line)


@prints_figures
def apply(
    input_path: Path,
    output: Path,
    policy: Path | None = None,
    scorer: str | None = None,
    aggregator: str | None = None,
    abstention: str | None = None,
) -> None:
    """Score passages, decide from logged signals, or tell abstentions, line by line.

    Questions with passages get `scores` (raw, one per passage; null for a passage without
    text), `relevance` (calibrated probability; 0 without passages) and `error` (null, or why
    there is no score).

    Signals get the decision that the guard would take by `--policy`. A signal that it needs and
    that is null or NaN counts as failed and leads to abstention; `"nothing_retrieved": true`
    stands for a question without passages.

    Replies get `abstained` and `probability` (0 or 1 with a published rule), without a language
    model, in English and Chinese. An optional `citation` says what the reply cites: null, "", [],
    a negative number or "no citation" stand for nothing. An empty reply abstains.

    An `id` is passed on.

    Example: `knowgate apply --policy policy.json --input pairs.jsonl --output scores.jsonl`

    Args:
        input_path: JSON lines: {"question", "passages"}, or signals that a guard logged:
            {"relevance", "confidence", "conflict"}, or replies: {"question", "response"}.
        output: JSON lines: a result for each line, in order.
        policy: Decide by this policy, or score as it does.
        scorer: Scorer by name, a tuned, exported or sentence-transformers folder, or
            judge:MODEL, or python:module:attribute; by default the policy's, or sufficiency.
            Options: NAME,dtype=bfloat16.
        aggregator: Passage scores to one value, without --policy; by default the scorer's:
            joint for sufficiency and judge, max for others.
        abstention: Rule that tells abstentions: default, or a published one for reproduction:
            uaqfact, uniknow.
    """
    if abstention is not None:
        others = {"policy": policy, "scorer": scorer, "aggregator": aggregator}
        reject(others, "does not go with --abstention")
    elif policy is not None:
        reject({"aggregator": aggregator}, "does not go with --policy, which has its own")
    lines = list(read_jsonl(input_path))
    first = next((value for _, value in lines), {})
    found: dict[str, Any]
    by_scorer = scorer is not None or aggregator is not None
    if abstention is not None or ("response" in first and not by_scorer and policy is None):
        replies = _checked(input_path, lines, _Reply)
        counts = _written(output, "reading replies", replies, _abstentions(replies, abstention))
        found = {"replies": len(lines), "abstained": counts[True]}
        said = f"{len(lines)} replies read, {counts[True]} abstained"
    elif policy is not None and not by_scorer and "passages" not in first:
        signals = _checked(input_path, lines, _Signals)
        counts = _written(output, "routing", signals, _decisions(signals, Policy.load(policy)))
        found = {"lines": len(lines), "routes": counts}
        said = f"{len(lines)} lines routed"
    else:
        pairs = _checked(input_path, lines, _Pair)
        guard = _measuring_guard(policy, scorer, aggregator)
        counts = _written(output, "scoring", pairs, _scores(pairs, guard))
        found = {"lines": len(lines), "failed": counts[True]}
        said = f"{len(lines)} lines scored"
    print_figures({**found, "output": output})
    out.print(f"{said} → {output}")


def _checked(path: Path, lines: Sequence[tuple[int, Any]], model: type[LineT]) -> list[LineT]:
    return [
        check_model(model, value, where=f"{path}:{number}", hint=_HINTS[model])
        for number, value in lines
    ]


def _written(
    path: Path,
    title: str,
    lines: Sequence[_Line],
    results: Iterator[tuple[str | bool, dict[str, Any]]],
) -> Counter[str | bool]:
    """Write a result per line, below its id; return how many there are of each kind."""
    counts: Counter[str | bool] = Counter()
    with atomic_writer(path) as stream, progress_bar(title) as advance:
        for done, (line, (kind, result)) in enumerate(zip(lines, results, strict=True), start=1):
            counts[kind] += 1
            own = {"id": line.id} if "id" in line.model_fields_set else {}
            stream.write(json_line({**own, **result}))
            advance(done, len(lines))
    return counts


def _abstentions(
    replies: Sequence[_Reply], rule: str | None
) -> Iterator[tuple[bool, dict[str, Any]]]:
    loaded = load_rule(rule or "default")
    for one in replies:
        verdict = loaded.detect(one.response, question=one.question, citation=one.citation)
        told = {"abstained": verdict.abstained, "probability": verdict.probability}
        yield verdict.abstained, told


def _decisions(lines: Sequence[_Signals], policy: Policy) -> Iterator[tuple[str, dict[str, Any]]]:
    for one in lines:
        logged, nothing = (one.relevance, one.confidence, one.conflict), one.nothing_retrieved
        signals = Signals.replay(policy, *logged, nothing_retrieved=nothing)
        verdict = decide_route(policy, signals)
        decision = Decision(
            route=verdict.route,
            reason=verdict.reason,
            scenario=verdict.scenario,
            relevance=signals.relevance,
            confidence=signals.confidence,
            conflict=signals.conflict,
            failed_signals=tuple(sorted(name.value for name in signals.failed)),
            relevance_stage=one.relevance_stage,
        )
        yield verdict.route.value, decision.model_dump(mode="json", exclude=_NOT_LOGGED)


def _measuring_guard(path: Path | None, scorer: str | None, aggregator: str | None) -> Guard:
    """Make a guard that measures relevance as the policy or the scorer does."""
    if aggregator is not None:
        require_aggregator(aggregator)
    policy = None if path is None else Policy.load(path)
    if scorer is not None and ":" in scorer:
        import_module("..systems", __package__)  # takes a second; registers `judge:`
    usual = DEFAULT_SCORER if policy is None else policy.scorer
    chosen = load_scorer(scorer or usual)
    calibrator = default_calibrator(chosen.fingerprint)
    if policy is not None:
        chosen = completed_scorer(policy.scorer, chosen)
        try:
            policy.require_scorer(chosen.fingerprint.probed(chosen))
        except FingerprintMismatchError as error:
            raise FingerprintMismatchError(error.what, where=str(path), hint=error.hint) from None
        aggregator, calibrator = policy.aggregator, policy.relevance_calibrator
    return measuring_guard(chosen, aggregator, calibrator, mode="shadow")


def _scores(pairs: Sequence[_Pair], guard: Guard) -> Iterator[tuple[bool, dict[str, Any]]]:
    for some in batched(pairs, _LINES_PER_BATCH):
        asked, given = [one.question for one in some], [one.passages for one in some]
        for decision in guard.decide_batch(asked, given):
            failed, reason = decision.relevance is None, str(decision.reason)
            told = {
                "scores": None if failed else list(decision.scores),
                "relevance": decision.relevance,
                "error": _FAULTS.get(reason, reason) if failed else None,
            }
            yield failed, told
