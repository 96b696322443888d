"""Running what was prepared: contexts, replies, labels of logs, judges."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ....guard.decision import Route
from ....guard.errors import InputError
from ....guard.files import read_text, write_text
from ...data import Encoder
from ...judging import (
    NOT_APPLICABLE,
    Judge,
    JudgedReply,
    JudgeTotals,
    Verdict,
    judge_run,
)
from ...run import (
    ABSTENTION,
    FACTUALITY,
    JUDGEMENTS,
    REPLIES,
    CallLimits,
    CaseKind,
    OnProgress,
    Question,
    RayPool,
    RunTotals,
    StoredPassage,
    holds_replies,
    open_table,
    read_replies_run,
    run_calls_ray_sync,
    run_calls_sync,
    start_replies_run,
)
from ...systems import (
    OFF,
    Asked,
    AskedBase,
    Case,
    FoundContext,
    LiveSystem,
    Material,
    ModelUnderTest,
    PassageIndex,
    Replayed,
    Replier,
    RepliesSettings,
    Retriever,
    failed_row,
    find_contexts,
    given_judgements,
    load_retriever,
    make_replier,
    synthetic_questions,
)
from ._preparing import Comparison, Prepared, note_left_out_check, prepare

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


_OF_GUARD = {ABSTENTION: "yes", FACTUALITY: NOT_APPLICABLE}
_REASONING = "the guard's own reply"


def judge_replies(
    folder: str | os.PathLike[str],
    judges: Sequence[Judge],
    *,
    limits: CallLimits | None = None,
    on_progress: OnProgress | None = None,
) -> JudgeTotals:
    """Judge every reply of a run, except the replies of guards.

    A guard's own reply is always an abstention: no judge is asked about it.

    Args:
        folder: of the run.
        judges: at least one, of different names.
        limits: of the calls that judging takes.
        on_progress: told after each verdict.

    Raises:
        InputError: the run or a judge cannot be used.
        MissingDependencyError: a judge needs a package that is not there.
    """
    rows = read_replies_run(folder).replies.values()
    by_guard = frozenset(row.reply_id for row in rows if row.route is Route.ABSTAIN)
    return judge_run(
        folder,
        [_KnowsGuards(judge, by_guard) for judge in judges],
        limits=limits,
        on_progress=on_progress,
    )


class _KnowsGuards:
    """A judge that is not asked about replies which guards gave in a model's place."""

    def __init__(self, judge: Judge, by_guard: Collection[str]) -> None:
        self._judge, self._by_guard = judge, by_guard
        self.name, self.estimate, self.criteria = judge.name, judge.estimate, judge.criteria

    def version(self, criterion: str) -> str:
        """Of the judge itself."""
        return self._judge.version(criterion)

    def wants(self, criterion: str, material: JudgedReply, known: Mapping[str, str]) -> bool:
        """Of a guard's reply, what is known of it; of others, what the judge wants."""
        if material.reply_id in self._by_guard:
            return criterion in _OF_GUARD
        return self._judge.wants(criterion, material, known)

    async def judge(
        self, criterion: str, material: JudgedReply, known: Mapping[str, str]
    ) -> Verdict:
        """The verdict, or what is known anyway."""
        if material.reply_id in self._by_guard:
            return Verdict(_OF_GUARD[criterion], reasoning=_REASONING)
        return await self._judge.judge(criterion, material, known)


@dataclass(frozen=True, slots=True)
class RepliesDone:
    """A finished run.

    Attributes:
        folder: where it lies.
        totals: of the replies.
        prepared: what it was made of.
    """

    folder: Path
    totals: RunTotals
    prepared: Prepared


def run_replies(
    questions: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    comparison: Comparison,
    *,
    encoder: Callable[[], Encoder],
    settings: RepliesSettings | None = None,
    limits: CallLimits | None = None,
    pool: RayPool | None = None,
    on_progress: OnProgress | None = None,
) -> RepliesDone:
    """Put the questions to all systems, and store what they say.

    Interrupted at any point and called again with the same arguments, it goes on and
    asks nothing twice. A call that fails for good is a row with its error.

    Args:
        questions: files, one per knowledge base.
        out: the run folder.
        comparison: what is compared.
        encoder: makes the retriever's encoder, called only where something searches.
        settings: what decides the replies.
        limits: how fast they may come.
        pool: workers on a Ray cluster that make the calls; None for this process.
        on_progress: told how far it is.

    Raises:
        InputError: an argument, a file or the folder cannot be used; raised before
            anything is asked, and the folder is left as it was.
        MissingDependencyError: a package is missing.
    """
    settings, limits = settings or RepliesSettings(), limits or CallLimits()
    prepared = prepare(questions, comparison, settings)
    running = _Running(Path(out), prepared, _Calling(limits, pool, on_progress), encoder)
    if CaseKind.SYNTHETIC in settings.cases and prepared.systems:
        made_up = running.made_up_questions()
        prepared = prepare(questions, comparison, settings, made_up)
        running = running.again_with(prepared)
    return running.run()


@dataclass(frozen=True, slots=True)
class _Calling:
    """How the calls of a run are made."""

    limits: CallLimits
    pool: RayPool | None
    on_progress: OnProgress | None


class _Running:
    """One run on its way."""

    def __init__(
        self,
        out: Path,
        prepared: Prepared,
        calling: _Calling,
        encoder: Callable[[], Encoder],
    ) -> None:
        self._out, self._calling, self._make_encoder = out, calling, encoder
        # What travels to other processes is loaded there by its name.
        self._named = prepared.models
        loaded = {name: model.loaded() for name, model in prepared.models.items()}
        self._prepared = replace(prepared, models=loaded)
        self._encoder: Encoder | None = None
        self._indices: dict[str, PassageIndex] = {}

    def again_with(self, prepared: Prepared) -> _Running:
        """The same with what is known only after made-up questions are there."""
        models = {**self._prepared.models}
        again = _Running(
            self._out,
            replace(prepared, models=models),
            self._calling,
            self._make_encoder,
        )
        again._named, again._encoder, again._indices = self._named, self._encoder, self._indices
        return again

    def run(self) -> RepliesDone:
        prepared = self._prepared
        # What could refuse comes before the folder is made.
        Replier(self._material({})).require_guards(self._guarded_models())
        self._require_retrievals()
        folder = start_replies_run(
            self._out,
            settings=prepared.manifest_settings(self.encoder() if prepared.searches() else None),
            systems=prepared.reply_systems(),
            questions=prepared.questions(),
            passages=prepared.passages(),
            cases=prepared.reply_cases(),
            replies=len(prepared.items()),
            inputs=prepared.inputs(),
        )
        contexts = find_contexts(
            folder,
            prepared.wanted_contexts(),
            self._retriever,
            self._calling.limits,
            self._calling.on_progress,
        )
        others = _others(contexts)
        _add_passages(folder / "passages.jsonl", others)
        note_left_out_check(folder, prepared.bases, prepared.left_out(), self._index)
        totals = self._ask(folder, contexts, others)
        self._store_given(folder)
        return RepliesDone(folder, totals, prepared)

    # -- questions that nobody asked yet ------------------------------------------

    def made_up_questions(self) -> dict[str, list[Question]]:
        """Made-up questions by knowledge base: those of the folder, or else new ones."""
        if (self._out / "manifest.json").exists() and holds_replies(self._out):
            return _made_up_before(self._out)
        found = {}
        for base in self._prepared.bases:
            made = synthetic_questions(
                base.records, self.encoder(), self._writer(), seed=self._prepared.settings.seed
            )
            found[base.name] = [
                Question(
                    question_id=f"{base.name}/{question.question_id}",
                    question=question.question,
                    knowledge_base=base.name,
                )
                for question in made.questions
            ]
        return found

    # -- contexts -------------------------------------------------------------------

    def encoder(self) -> Encoder:
        """The retriever's encoder, loaded once."""
        if self._encoder is None:
            self._encoder = self._make_encoder()
        return self._encoder

    def _retriever(self, name: str, base: str) -> Retriever:
        found = self._base(base)
        index = self._index(found) if name in ("basic_rag", "hyde") else None
        return load_retriever(
            name,
            found.knowledge_base,
            self.encoder,
            lm=self._writer() if name == "hyde" else None,
            top_k=self._prepared.settings.top_k,
            index=index,
        )

    def _index(self, base: AskedBase) -> PassageIndex:
        if base.name not in self._indices:
            self._indices[base.name] = PassageIndex(base.knowledge_base, self.encoder())
        return self._indices[base.name]

    def _require_retrievals(self) -> None:
        """Make what may turn out not to be there: retrievers of the user's own, a writer."""
        for name in {live.retrieval for live in self._prepared.systems}:
            if name.startswith("python:"):
                load_retriever(name, self._prepared.bases[0].knowledge_base, self.encoder)
            if name == "hyde" and self._writer() is None:
                raise InputError(
                    "needs a language model that writes",
                    where="--retrieval hyde",
                    hint="name a chat model with --writer",
                )

    def _base(self, name: str) -> AskedBase:
        return next(base for base in self._prepared.bases if base.name == name)

    def _writer(self) -> Runnable[Any, Any] | None:
        name = self._prepared.comparison.writer
        if name is not None:
            known = self._prepared.models.get(name)
            return (known or ModelUnderTest(name).loaded()).asked
        for model in self._prepared.models.values():
            if model.takes_prompt:
                return model.asked
        return None

    # -- replies --------------------------------------------------------------------

    def _ask(
        self,
        folder: Path,
        contexts: Mapping[str, FoundContext],
        others: Mapping[str, StoredPassage],
    ) -> RunTotals:
        calling, items = self._calling, self._prepared.items()
        material = self._material(contexts, others)
        with open_table(folder, REPLIES) as table:
            if calling.pool is not None:
                travelling = replace(material, models=self._named)
                return run_calls_ray_sync(
                    items,
                    partial(make_replier, travelling),
                    table,
                    key=_reply_id,
                    failed=partial(failed_row, material),
                    limits=calling.limits,
                    on_progress=calling.on_progress,
                    pool=calling.pool,
                )
            replier = Replier(material)
            return run_calls_sync(
                items,
                replier,
                table,
                key=_reply_id,
                failed=replier.failed,
                limits=calling.limits,
                on_progress=calling.on_progress,
                stage="asking",
            )

    def _material(
        self,
        contexts: Mapping[str, FoundContext],
        others: Mapping[str, StoredPassage] | None = None,
    ) -> Material:
        prepared = self._prepared
        held: dict[str, dict[str, str]] = {}
        loose = {}
        for passage in prepared.passages():
            if passage.knowledge_base:
                held.setdefault(passage.knowledge_base, {})[passage.passage_id] = passage.text
            else:
                loose[passage.passage_id] = passage.text
        loose.update({name: passage.text for name, passage in (others or {}).items()})
        paid_by: dict[str, str] = {}
        for live in prepared.systems:
            paid_by.setdefault(live.retrieval, live.system.system_id)
        return Material(
            models=prepared.models,
            guards=prepared.guards,
            scorer=prepared.comparison.scorer,
            contexts=contexts,
            passages=held,
            others=loose,
            context_chars=prepared.settings.context_chars,
            paid_by=paid_by,
        )

    def _guarded_models(self) -> list[tuple[str, str]]:
        live = [(one.guard, one.model) for one in self._prepared.systems]
        logged = [(one.guard, one.model) for one in self._prepared.replay.systems]
        return [pair for pair in dict.fromkeys([*live, *logged]) if pair[0] != OFF]

    def _store_given(self, folder: Path) -> None:
        if not self._prepared.replay.items:
            return
        rows = read_replies_run(folder).replies
        with open_table(folder, JUDGEMENTS) as table:
            table.extend(given_judgements(self._prepared.replay, rows))


def _reply_id(item: Asked | Replayed) -> str:
    return item.reply_id


def _made_up_before(folder: Path) -> dict[str, list[Question]]:
    run = read_replies_run(folder)
    found: dict[str, list[Question]] = {}
    for case in run.cases.values():
        if case.kind is CaseKind.SYNTHETIC:
            question = run.questions[case.question_id]
            found.setdefault(case.knowledge_base, []).append(question)
    return found


def _others(contexts: Mapping[str, FoundContext]) -> dict[str, StoredPassage]:
    return {
        passage.passage_id: passage for found in contexts.values() for passage in found.passages
    }


def _add_passages(path: Path, passages: Mapping[str, StoredPassage]) -> None:
    """Passages that a retriever of the user's own found, added to the run's."""
    text = read_text(path)
    held = {StoredPassage.model_validate_json(line).passage_id for line in text.split("\n") if line}
    new = [passage for name, passage in passages.items() if name not in held]
    if new:
        write_text(path, text + "".join(passage.model_dump_json() + "\n" for passage in new))
