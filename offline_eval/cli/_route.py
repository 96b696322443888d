"""`knowgate route`: replay a policy over logged signals."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from ...guard.decision import Decision
from ...guard.errors import InputError
from ...guard.files import atomic_writer, read_jsonl
from ...guard.policy import Policy
from ...guard.routing import Signals, decide_route
from ._app import app
from ._console import (
    checked_id,
    json_line,
    out,
    print_figures,
    prints_figures,
    progress_bar,
)

_HINT = '"relevance" and "confidence" are numbers in [0, 1] or null, "conflict" is a bool or null'
# What the guard sees of a question and its passages, and no line of signals has.
_NOT_LOGGED = {"answerability", "timings", "kept", "scores", "views"}
_STAGES = ("cheap", "costly", "fallback")


@app.command()
@prints_figures
def route(
    policy: Annotated[Path, typer.Option(help="The policy to replay.")],
    input_path: Annotated[
        Path, typer.Option("--input", help='JSON lines: {"relevance", "confidence", "conflict"}.')
    ],
    output: Annotated[Path, typer.Option(help="JSON lines: one decision per line.")],
) -> None:
    """Decide from logged signals exactly as the guard would.

    A signal that the policy needs and that is null or NaN counts as failed and
    leads to abstention, as in the guard by default; one that the policy does not
    need is left out of the decision. `"nothing_retrieved": true` stands for a
    question without passages. An `id` is passed on, and `relevance_stage`, which a cascade of
    scorers gives and `knowgate drift` reads.

    Example: `knowgate route --policy policy.json --input signals.jsonl --output decisions.jsonl`
    """
    replay = _Replay(Policy.load(policy))
    lines = list(read_jsonl(input_path))
    results = [replay.result(value, f"{input_path}:{number}") for number, value in lines]
    with atomic_writer(output) as stream, progress_bar("routing") as advance:
        for done, ((_, value), result) in enumerate(zip(lines, results, strict=True), start=1):
            stream.write(json_line({"id": value["id"], **result} if "id" in value else result))
            advance(done, len(lines))
    routes = Counter(result["route"] for result in results)
    print_figures({"lines": len(results), "routes": routes, "output": output})
    out.print(f"{len(results)} lines routed → {output}", markup=False)


class _Replay:
    """Decisions by one policy.

    A policy only ever asks whether a signal is there and reaches its threshold. Lines
    that agree in that share their decision, down to the values themselves, and it is
    taken once.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._decided: dict[tuple[bool | None, ...], dict[str, Any]] = {}

    def result(self, value: dict[str, Any], where: str) -> dict[str, Any]:
        """The decision on one line, as it is written.

        Raises:
            InputError: the line holds no signals.
        """
        if not isinstance(value.get("id"), str | int | None):
            checked_id(value, where)
        nothing = value.get("nothing_retrieved", False)
        if not isinstance(nothing, bool):
            raise InputError("field 'nothing_retrieved' must be a bool", where=where, hint=_HINT)
        if "relevance" not in value and not nothing:
            raise InputError("field 'relevance' is missing", where=where, hint=_HINT)
        conflict = value.get("conflict")
        if conflict is not None and not isinstance(conflict, bool):
            raise InputError("field 'conflict' must be a bool or null", where=where, hint=_HINT)
        relevance = _probability(value, "relevance", where)
        confidence = _probability(value, "confidence", where)
        key = (
            nothing,
            _reaches(relevance, self._policy.relevance_threshold),
            _reaches(confidence, self._policy.confidence_threshold),
            conflict,
        )
        if key not in self._decided:
            signals = Signals.replay(
                self._policy, relevance, confidence, conflict, nothing_retrieved=nothing
            )
            self._decided[key] = _decision(self._policy, signals)
        result = dict(self._decided[key])
        if (stage := value.get("relevance_stage")) is not None:
            if stage not in _STAGES:
                raise InputError("field 'relevance_stage' is unknown", where=where, hint=_HINT)
            result["relevance_stage"] = stage
        # Null where the policy did not ask for the signal, or it failed; 0 without passages.
        if result["relevance"] is not None and not nothing:
            result["relevance"] = relevance
        if result["confidence"] is not None:
            result["confidence"] = confidence
        return result


def _decision(policy: Policy, signals: Signals) -> dict[str, Any]:
    verdict = decide_route(policy, signals)
    decision = Decision(
        route=verdict.route,
        reason=verdict.reason,
        scenario=verdict.scenario,
        relevance=signals.relevance,
        confidence=signals.confidence,
        conflict=signals.conflict,
        failed_signals=tuple(sorted(name.value for name in signals.failed)),
    )
    return decision.model_dump(mode="json", exclude=_NOT_LOGGED)


def _reaches(value: float | None, threshold: float | None) -> bool | None:
    """None where there is no finite value; without a threshold nothing reaches it."""
    if value is None or not math.isfinite(value):
        return None
    return threshold is not None and value >= threshold


def _probability(value: dict[str, Any], name: str, where: str) -> float | None:
    found = value.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"field '{name}' must be a number or null", where=where, hint=_HINT)
    # A whole number may be too large for a float: compared as it is, never converted.
    if (isinstance(found, int) or math.isfinite(found)) and not 0 <= found <= 1:
        raise InputError(f"field '{name}' is not within [0, 1]", where=where, hint=_HINT)
    return float(found)
