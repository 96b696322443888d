"""What a run would cost, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ookb import Case
from ._bases import AskedBase
from ._guard_choices import OFF
from ._plan import LiveSystem
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
    """Calls and tokens per system, without retrieving anything; tries again not counted."""
    bases = {base.name: base for base in prepared.bases}
    found = []
    # Retrieving is paid for once, whatever the systems that share it.
    paid: set[str] = set()
    for live in prepared.systems:
        writes = live.retrieval == "hyde" and live.retrieval not in paid
        paid.add(live.retrieval)
        read = written = calls = 0
        for name, cases in prepared.cases.items():
            sizes = _Sizes.of(bases[name])
            for case in cases:
                calls += 2 if writes else 1
                read += _input(live, case, sizes, prepared, writes=writes)
                written += _output(sizes, writes=writes)
        rows = sum(map(len, prepared.cases.values()))
        guarded = live.guard != OFF
        found.append(SystemEstimate(live.system.system_id, rows, calls, read, written, guarded))
    of_logs: dict[str, int] = {system.system.system_id: 0 for system in prepared.replay.systems}
    for item in prepared.replay.items:
        of_logs[item.system.system.system_id] += 1
    found += [SystemEstimate(name, rows, 0, 0, 0, False) for name, rows in of_logs.items()]
    return found


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


def _input(live: LiveSystem, case: Case, sizes: _Sizes, prepared: Prepared, *, writes: bool) -> int:
    context = 0.0
    if live.retrieval == "long_context":
        context = sizes.whole - sizes.passages.get(case.passage_id, 0)
    elif live.retrieval != "direct":
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
