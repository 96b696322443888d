"""`knowgate score`: relevance for a file of questions with passages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from ...guard import Guard, GuardOptions
from ...guard.contracts import RelevanceScorer
from ...guard.decision import Decision, Reason
from ...guard.errors import FingerprintMismatchError, InputError
from ...guard.files import atomic_writer, read_jsonl
from ...guard.policy import Policy
from ...guard.policy import aggregator as require_aggregator
from ...guard.signals.relevance import (
    DEFAULT_SCORER,
    CascadeScorer,
    default_aggregator,
    default_calibrator,
    load_scorer,
)
from ._app import app
from ._console import (
    checked_id,
    json_line,
    out,
    print_figures,
    prints_figures,
    progress_bar,
)

_LINES_PER_BATCH = 32
_HINT = 'each line needs "question" (text) and "passages" (a list of texts)'


@app.command()
@prints_figures
def score(
    input_path: Annotated[
        Path, typer.Option("--input", help='JSON lines: {"question", "passages"}.')
    ],
    output: Annotated[Path, typer.Option(help='JSON lines: {"scores", "relevance"}.')],
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Scorer by name, a tuned, exported or sentence-transformers folder, or "
            f"judge:MODEL; by default the policy's, or {DEFAULT_SCORER}. Options: "
            "NAME,dtype=bfloat16."
        ),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="Take calibrator and aggregator from this policy.")
    ] = None,
    aggregator: Annotated[
        str | None,
        typer.Option(
            help="Passage scores to one value, without --policy; by default the scorer's: "
            "joint for sufficiency and judge, max for others."
        ),
    ] = None,
) -> None:
    """Score how far passages suffice to answer a question.

    Per input line one output line, in order: `scores` (raw, one per passage; null
    for a passage without text), `relevance` (calibrated probability; 0 without
    passages) and `error` (null, or why there is no score). An `id` is passed on.

    Example: `knowgate score --scorer bi_encoder --input pairs.jsonl --output scores.jsonl`
    """
    lines = [(number, value) for number, value in read_jsonl(input_path)]
    for number, value in lines:
        _check(value, f"{input_path}:{number}")
    if aggregator is not None:
        require_aggregator(aggregator)
    loaded = Policy.load(policy) if policy is not None else None
    if scorer is None and loaded is not None:
        chosen = load_scorer(loaded.scorer)
    else:
        if scorer is not None and ":" in scorer:
            import_module("..systems", __package__)  # takes a second; registers `judge:`
        chosen = load_scorer(scorer or DEFAULT_SCORER)
        if loaded is not None:
            chosen = CascadeScorer.completing(loaded.scorer, chosen)
    guard = _guard(chosen, loaded, aggregator, where=str(policy))
    failed = 0
    with atomic_writer(output) as stream, progress_bar("scoring") as advance:
        for done, (value, decision) in enumerate(_decisions(guard, lines), start=1):
            result = _result(value, decision)
            failed += result["error"] is not None
            stream.write(json_line(result))
            advance(done, len(lines))
    print_figures({"lines": len(lines), "failed": failed, "output": output})
    out.print(f"{len(lines)} lines scored → {output}", markup=False)


def _guard(
    scorer: RelevanceScorer, policy: Policy | None, aggregator: str | None, *, where: str
) -> Guard:
    if policy is not None:
        try:
            policy.require_scorer(scorer.fingerprint.probed(scorer))
        except FingerprintMismatchError as error:
            raise FingerprintMismatchError(error.what, where=where, hint=error.hint) from None
    measuring = Policy(
        scorer=scorer.fingerprint,
        aggregator=(
            aggregator or default_aggregator(scorer.fingerprint.kind)
            if policy is None
            else policy.aggregator
        ),
        relevance_calibrator=(
            default_calibrator(scorer.fingerprint)
            if policy is None
            else policy.relevance_calibrator
        ),
        relevance_threshold=1.0,
    )
    # No deadline: nobody waits for an answer, and a busy machine must not cost lines.
    options = GuardOptions(mode="shadow", deadlines={"relevance": None})
    return Guard(measuring, scorer=scorer, options=options, metrics=False)


def _decisions(
    guard: Guard, lines: list[tuple[int, dict[str, Any]]]
) -> Iterator[tuple[dict[str, Any], Decision]]:
    for start in range(0, len(lines), _LINES_PER_BATCH):
        values = [value for _, value in lines[start : start + _LINES_PER_BATCH]]
        decisions = guard.decide_batch(
            [value["question"] for value in values], [value["passages"] for value in values]
        )
        yield from zip(values, decisions, strict=True)


def _result(value: dict[str, Any], decision: Decision) -> dict[str, Any]:
    failed = decision.relevance is None
    result = {
        "scores": None if failed else list(decision.scores),
        "relevance": decision.relevance,
        "error": str(decision.reason) if failed else None,
    }
    if failed and decision.reason is Reason.INVALID_INPUT:
        result["error"] = "the question is empty"
    if failed and decision.reason is Reason.UNSUPPORTED_LANGUAGE:
        result["error"] = "unsupported language"
    return {"id": value["id"], **result} if "id" in value else result


def _check(value: dict[str, Any], where: str) -> None:
    checked_id(value, where)
    for name in ("question", "passages"):
        if name not in value:
            raise InputError(f"field '{name}' is missing", where=where, hint=_HINT)
    if not isinstance(value["question"], str):
        raise InputError("field 'question' must be text", where=where, hint=_HINT)
    passages = value["passages"]
    if not isinstance(passages, list):
        raise InputError("field 'passages' must be a list", where=where, hint=_HINT)
    for index, passage in enumerate(passages):
        if not isinstance(passage, str) and not _has_text(passage):
            raise InputError(f"passages[{index}] is not text", where=where, hint=_HINT)


def _has_text(passage: object) -> bool:
    # An empty text is one, and gets no score; an object without any is a mistake.
    return isinstance(passage, dict) and any(
        isinstance(passage.get(name), str) for name in ("page_content", "text", "content")
    )
