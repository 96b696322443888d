"""Estimate calls and tokens of a run of replies before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...run import CaseKind
from ...systems import Case, SystemUnderTest
from .._parts import DryRun
from ._bases import AskedBase
from ._preparing import Prepared

# Rough, and the same for every model: English text by common tokenizers.
_CHARS_PER_TOKEN = 4
# A reply is taken to be as long as the expected answers, and a citation line.
_CITATION_TOKENS = 6
_HYDE_ANSWERS, _HYDE_INSTRUCTION = 3, 400


@dataclass(frozen=True, slots=True)
class SystemEstimate:
    """What one system is likely to cost.

    Attributes:
        system_id: of the system.
        replies: rows that it will have.
        calls: of its model; at most so many where a guard may abstain.
        input_tokens: of those calls, by the length of prompts and passages.
        output_tokens: likewise, by the length of the expected answers.
        at_most: whether a guard stands in front.
    """

    system_id: str
    replies: int
    calls: int
    input_tokens: int
    output_tokens: int
    at_most: bool


def estimate(prepared: Prepared) -> list[SystemEstimate]:
    """Estimate calls and tokens per system, without retrieving; further attempts not counted."""
    bases = {base.name: base for base in prepared.bases}
    cases_of_bases = prepared.cases()
    found = []
    # Retrieving is paid for once, whatever the systems that share it.
    paid: set[str] = set()
    for live in prepared.systems.live:
        writes = live.record.retrieval == "hyde" and live.record.retrieval not in paid
        paid.add(live.record.retrieval)
        read = written = calls = 0
        for name, cases in cases_of_bases.items():
            sizes = _Sizes.of(bases[name])
            for case in cases:
                calls += 2 if writes else 1
                read += _input(live, case, sizes, prepared, writes=writes)
                written += _output(sizes, writes=writes)
        rows = sum(map(len, cases_of_bases.values()))
        guarded = live.guarded
        found.append(SystemEstimate(live.system_id, rows, calls, read, written, guarded))
    of_logs: dict[str, int] = {system.system_id: 0 for system in prepared.replay.systems}
    for item in prepared.replay.items:
        of_logs[item.system.system_id] += 1
    found += [SystemEstimate(name, rows, 0, 0, 0, False) for name, rows in of_logs.items()]
    return found


def cost_table(prepared: Prepared) -> DryRun:
    """Return what every system is likely to cost, as `--dry-run` shows it."""
    found = estimate(prepared)
    lines = []
    for one in found:
        most = "≤ " if one.at_most else ""
        numbers = (one.calls, one.input_tokens, one.output_tokens)
        lines.append((one.system_id, str(one.replies), *(f"{most}{number}" for number in numbers)))
    calls, read, written = (
        sum(getattr(one, name) for one in found)
        for name in ("calls", "input_tokens", "output_tokens")
    )
    at_most = "at most " if any(one.at_most for one in found) else ""
    notes = [
        f"together {at_most}{calls} calls, about {read} tokens in and {written} out "
        "(4 characters to a token; replies as long as the expected answers)",
        *_not_counted(prepared),
        "nothing was asked or written",
    ]
    values = {
        one.system_id: {
            "replies": one.replies,
            "calls": one.calls,
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
        }
        for one in found
    }
    columns = ("system", "replies", "calls", "tokens in", "tokens out")
    return DryRun(columns, tuple(lines), tuple(notes), {"systems": values})


def _not_counted(prepared: Prepared) -> list[str]:
    lines = []
    if CaseKind.SYNTHETIC in prepared.settings.cases:
        lines.append("not counted: synthetic questions, whose number is known once they are there")
    if prepared.systems.asks_models:
        lines.append("not counted: samples by which a guard measures the model's confidence")
    if any(name.startswith("llm:") for name in prepared.settings.judges):
        lines.append("not counted: calls of the judges, one per reply and criterion or fewer")
    return lines


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Lengths in characters."""

    passages: Mapping[str, int]
    whole: int
    mean_passage: float
    mean_answer: float

    @classmethod
    def of(cls, base: AskedBase) -> _Sizes:
        lengths = {name: len(text) for name, text in base.knowledge_base.passages.items()}
        answers = [len(record.answer) for record in base.records]
        return cls(
            passages=lengths,
            whole=sum(lengths.values()),
            mean_passage=sum(lengths.values()) / len(lengths),
            mean_answer=sum(answers) / len(answers),
        )


def _input(
    live: SystemUnderTest, case: Case, sizes: _Sizes, prepared: Prepared, *, writes: bool
) -> int:
    context = 0.0
    if live.record.retrieval == "long_context":
        context = sizes.whole - sizes.passages.get(case.passage_id, 0)
    elif live.record.retrieval != "direct":
        context = min(prepared.settings.top_k, len(sizes.passages)) * sizes.mean_passage
    if prepared.settings.context_chars is not None:
        context = min(context, prepared.settings.context_chars)
    if live.prompt is None:
        instruction = 0
    else:
        form = live.prompt.with_context if context else live.prompt.closed_book
        instruction = len(form.text)
    characters = instruction + len(case.question) + context
    if writes:
        characters += len(case.question) + _HYDE_INSTRUCTION
    return round(characters / _CHARS_PER_TOKEN)


def _output(sizes: _Sizes, *, writes: bool) -> int:
    reply = sizes.mean_answer / _CHARS_PER_TOKEN + _CITATION_TOKENS
    hyde = _HYDE_ANSWERS * sizes.mean_passage / _CHARS_PER_TOKEN
    return round(reply + (hyde if writes else 0))
