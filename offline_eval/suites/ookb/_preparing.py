"""Read and check everything that a run of replies is made from, and estimate what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from langchain_core.runnables import Runnable

from ....guard.errors import InputError
from ...data.questions import PassageKind
from ...run import Question
from ...run.manifest import InputFile
from ...run.questions import CaseKind
from ...run.replies import RepliesAsked, ReplyCase, StoredPassage
from ...systems.comparison import Comparison, Systems
from ...systems.plan import Asked, Case, SystemUnderTest
from ..parts import DryRun
from ._cases import AskedBase, cases_of, read_bases
from ._logs import Replay, read_replay
from ._settings import OokbSettings


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run before its first call.

    Attributes:
        comparison: as given.
        settings: as given.
        bases: knowledge bases with questions.
        systems: that are asked now, with their models and guards.
        replay: logged replies.
        synthetic: made-up questions by knowledge base.
    """

    comparison: Comparison
    settings: OokbSettings
    bases: tuple[AskedBase, ...]
    systems: Systems
    replay: Replay
    synthetic: Mapping[str, Sequence[Question]] = field(default_factory=dict)

    @property
    def makes_up_questions(self) -> bool:
        """Whether questions without an answer in the knowledge base are to be written."""
        return CaseKind.SYNTHETIC in self.settings.cases and bool(self.systems.live)

    def cases(self) -> dict[str, list[Case]]:
        """Cases of the systems that are asked now, by knowledge base."""
        if not self.systems.live:
            return {}
        return {
            base.name: cases_of(base, self.settings.cases, self.synthetic.get(base.name, ()))
            for base in self.bases
        }

    def items(self) -> list[Asked]:
        """All replies of the run: those to be asked for, then those of the logs."""
        return [*self.systems.items(self.cases()), *self.replay.items]

    def reply_cases(self) -> list[ReplyCase]:
        """All cases, each once, with whether the guards' policies were fitted on them."""
        found = {
            case.case_id: ReplyCase(
                case_id=case.case_id,
                question_id=case.question_id,
                kind=case.kind,
                knowledge_base=base,
                held_out=self.systems.held_out(case.question),
            )
            for base, cases in self.cases().items()
            for case in cases
        }
        texts = {one.question_id: one.question for one in self.replay.questions}
        for logged in self.replay.cases:
            held_out = self.systems.held_out(texts[logged.question_id])
            found.setdefault(logged.case_id, logged.model_copy(update={"held_out": held_out}))
        return list(found.values())

    def left_out(self) -> frozenset[str]:
        """Ids of the questions whose passage is left out in some case."""
        cases = self.reply_cases()
        return frozenset(one.question_id for one in cases if one.kind is CaseKind.LEFT_OUT)

    def questions(self) -> list[Question]:
        """The questions of all cases."""
        asked = [question for base in self.bases for question in base.questions()]
        made_up = [question for found in self.synthetic.values() for question in found]
        everything = {q.question_id: q for q in [*asked, *made_up, *self.replay.questions]}
        needed = {case.question_id for case in self.reply_cases()}
        return [q for name, q in everything.items() if name in needed]

    @property
    def passage_kind(self) -> PassageKind:
        """What passages hold; the answers where logs alone are in the run."""
        known = self.settings.passage or PassageKind.ANSWER
        return self.bases[0].knowledge_base.kind if self.bases else known

    def passages(self) -> list[StoredPassage]:
        """The passages of all knowledge bases, and of logged contexts."""
        found = {p.passage_id: p for base in self.bases for p in base.passages()}
        for passage in self.replay.passages:
            found.setdefault(passage.passage_id, passage)
        return list(found.values())

    def inputs(self) -> list[InputFile]:
        """The files that the run is made from."""
        logs = [InputFile.of(path) for path in self.comparison.replay]
        return [*(base.file for base in self.bases), *logs]

    def asked(self) -> RepliesAsked:
        """What is asked of whom, for the manifest and the files of the run."""
        return RepliesAsked(
            systems=[one.record for one in (*self.systems.live, *self.replay.systems)],
            questions=self.questions(),
            passages=self.passages(),
            cases=self.reply_cases(),
            replies=len(self.items()),
            policies={
                name: choice.policy
                for name, choice in self.systems.guards.items()
                if choice.policy is not None
            },
        )


def prepare(settings: OokbSettings, models: Mapping[str, Runnable[Any, Any]]) -> Prepared:
    """Read and check everything that can be read before a model is loaded.

    Args:
        settings: of the run.
        models: objects to be tested, by name; they take the place of names in the settings.

    Raises:
        InputError: a file, a name or a combination that cannot be used.
    """
    tested = models or settings.models
    if not tested and not settings.replay:
        raise InputError(
            "no system is under test",
            where="--model, --replay",
            hint="name one; signals to calibrate on are measured by `knowgate measure`",
        )
    if not tested:
        for name in ("prompts", "retrievals"):
            if name in settings.model_fields_set:
                raise InputError(
                    "is what the logs say where replies are replayed",
                    where=f"--{name[:-1]}",
                    hint="leave it out, or add --model",
                )
    if tested and not settings.questions:
        raise InputError("none is named", where="--questions", hint="name a file of questions")
    comparison = Comparison(
        models=tested,
        prompts=settings.prompts,
        retrievals=settings.retrievals,
        guards=settings.guards,
        replay=settings.replay,
        scorer=settings.scorer,
        writer=settings.writer,
    )
    systems = comparison.systems(settings.top_k)
    questions, limit = settings.questions, settings.limit
    bases = read_bases(questions, settings.passage, limit=limit) if questions else ()
    replay = read_replay(settings.replay, bases, systems, limit=limit)
    long_contexts = any(item.context.kind == "all_but" for item in replay.items)
    if systems.guarded and long_contexts and not bases:
        raise InputError(
            "a guard decides on the passages nearest to the question, and the logs' long "
            "contexts are known by their ids alone",
            where="--guard with --replay",
            hint="name the files of the questions with --questions",
        )
    return Prepared(comparison, settings, bases, systems, replay)


# Rough, and the same for every model: English text by common tokenizers.
_CHARS_PER_TOKEN = 4
# A reply is taken to be as long as the expected answers, and a citation line.
_CITATION_TOKENS = 6
_HYDE_ANSWERS, _HYDE_INSTRUCTION = 3, 400


@dataclass(slots=True)
class SystemEstimate:
    """What one system is likely to cost.

    Attributes:
        replies: rows that it will have.
        calls: of its model; at most so many where a guard may abstain.
        input_tokens: of those calls, by the length of prompts and passages.
        output_tokens: likewise, by the length of the expected answers.
    """

    replies: int
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def estimate(prepared: Prepared) -> dict[str, SystemEstimate]:
    """Estimate calls and tokens per system, without retrieving; further attempts not counted."""
    found: dict[str, SystemEstimate] = {}
    cases_of_bases = prepared.cases()
    # Retrieving is paid for once, whatever the systems that share it.
    paid: set[str] = set()
    for live in prepared.systems.live:
        writes = live.record.retrieval == "hyde" and live.record.retrieval not in paid
        paid.add(live.record.retrieval)
        own = found[live.system_id] = SystemEstimate(sum(map(len, cases_of_bases.values())))
        for base in prepared.bases:
            passages = [len(text) for text in base.knowledge_base.passages.values()]
            answer = fmean(len(record.answer) for record in base.records) / _CHARS_PER_TOKEN
            hyde = _HYDE_ANSWERS * fmean(passages) / _CHARS_PER_TOKEN if writes else 0
            for case in cases_of_bases.get(base.name, ()):
                own.calls += 2 if writes else 1
                own.input_tokens += _input(live, case, base, passages, prepared, writes=writes)
                own.output_tokens += round(answer + _CITATION_TOKENS + hyde)
    for system in prepared.replay.systems:
        items = sum(item.system.system_id == system.system_id for item in prepared.replay.items)
        found[system.system_id] = SystemEstimate(items)
    return found


def _input(
    live: SystemUnderTest,
    case: Case,
    base: AskedBase,
    passages: list[int],
    prepared: Prepared,
    *,
    writes: bool,
) -> int:
    context = 0.0
    if live.record.retrieval == "long_context":
        context = sum(passages) - len(base.knowledge_base.passages.get(case.passage_id, ""))
    elif live.record.retrieval != "direct":
        context = min(prepared.settings.top_k, len(passages)) * fmean(passages)
    if prepared.settings.context_chars is not None:
        context = min(context, prepared.settings.context_chars)
    characters = len(case.question) + context
    if live.prompt is not None:
        form = live.prompt.with_context if context else live.prompt.closed_book
        characters += len(form.text)
    if writes:
        characters += len(case.question) + _HYDE_INSTRUCTION
    return round(characters / _CHARS_PER_TOKEN)


def cost_table(prepared: Prepared) -> DryRun:
    """Return what every system is likely to cost, as `--dry-run` shows it."""
    found = estimate(prepared)
    # Where a guard stands in front, calls and tokens are the most that there may be.
    guarded = {live.system_id for live in prepared.systems.live if live.guarded}
    lines = []
    for name, one in found.items():
        most = "≤ " if name in guarded else ""
        numbers = (one.calls, one.input_tokens, one.output_tokens)
        lines.append((name, str(one.replies), *(f"{most}{number}" for number in numbers)))
    calls, read, written = (
        sum(getattr(one, name) for one in found.values())
        for name in ("calls", "input_tokens", "output_tokens")
    )
    notes = (
        f"together {'at most ' if guarded else ''}{calls} calls, about {read} tokens in and "
        f"{written} out (4 characters to a token; replies as long as the expected answers)",
        *_not_counted(prepared),
        "nothing was asked or written",
    )
    columns = ("system", "replies", "calls", "tokens in", "tokens out")
    values = {name: asdict(one) for name, one in found.items()}
    return DryRun(columns, tuple(lines), notes, {"systems": values})


def _not_counted(prepared: Prepared) -> list[str]:
    lines = []
    if CaseKind.SYNTHETIC in prepared.settings.cases:
        lines.append("not counted: synthetic questions, whose number is known once they are there")
    if prepared.systems.asks_models:
        lines.append("not counted: samples by which a guard measures the model's confidence")
    if any(name.startswith("llm:") for name in prepared.settings.judges):
        lines.append("not counted: calls of the judges, one per reply and criterion or fewer")
    return lines
