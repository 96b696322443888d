"""The suite of replies: systems under test are asked with the answer in place, and left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from langchain_core.runnables import Runnable

from ....guard.decision import Route
from ....guard.engine import BiEncoderScorer
from ...data.embedding import Encoder
from ...judging.contract import Judge, JudgedReply, Verdict
from ...judging.run import judge_run
from ...report.document import Document
from ...report.text import counted
from ...run import Question, RepliesRun
from ...run.questions import CaseKind
from ...run.replies import Judgement, RepliesManifest, ReplyRow
from ...run.table import TableSpec
from ...systems.comparison import SystemRun
from ...systems.factory import load_judges
from ...systems.plan import Asked, Case, Replayed, SystemUnderTest
from ...systems.replying import Replier
from ..base import Suite, SuiteRun
from ..parts import DryRun, RunOptions, System, Work
from ._left_out_check import note_left_out_check
from ._logs import given_judgements
from ._preparing import Prepared, cost_table, prepare
from ._replies_report import replies_document
from ._replies_summary import RepliesSummary, summarise_replies
from ._settings import OokbSettings


@dataclass(frozen=True, slots=True)
class OokbCase:
    """A question, left out or in.

    Attributes:
        case: of the question.
        base: name of its knowledge base.
    """

    case: Case
    base: str

    @property
    def case_id(self) -> str:
        """Identify the case in the run."""
        return self.case.case_id


class OokbCases(tuple[OokbCase, ...]):
    """All cases, with what they were made from.

    Attributes:
        prepared: questions, logs and systems.
        run: the systems with their models; set by `OokbSuite.begin`.
        judges: likewise.
    """

    prepared: Prepared
    run: SystemRun
    judges: Sequence[Judge] = ()

    @classmethod
    def of(cls, prepared: Prepared) -> OokbCases:
        """List the cases of the systems that are asked now, then those of the logs alone."""
        found = {
            case.case_id: OokbCase(case, base)
            for base, cases in prepared.cases().items()
            for case in cases
        }
        for item in prepared.replay.items:
            found.setdefault(item.case.case_id, OokbCase(item.case, item.base))
        made = cls(found.values())
        made.prepared = prepared
        return made


class OokbSystem(System):
    """A system that is asked now, or whose replies are logged.

    Args:
        tested: model, prompt, retrieval and guard by name.
        replayed: its logged replies by reply id; None for a system that is asked now.

    Attributes:
        replier: makes the replies; set before the first one, and no part of what travels to
            other processes.
    """

    def __init__(self, tested: SystemUnderTest, replayed: Mapping[str, Replayed] | None) -> None:
        super().__init__(tested.system_id)
        self.tested, self.replayed = tested, replayed
        self.replier: Replier | None = None

    def item(self, case: OokbCase) -> Asked:
        """Return what the replier is asked for a case."""
        item = Asked(self.tested, case.case, case.base)
        return item if self.replayed is None else self.replayed[item.reply_id]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "replier": None, "replayed": None}


class OokbSuite(Suite[OokbSettings, OokbCase, ReplyRow, RepliesSummary]):
    """Out of the knowledge base: ask each question with its source in place, and left out.

    Asks every model × prompt × retrieval × guard, stores the replies and judges them. A run
    that is killed continues when the same command is started again, and asks nothing twice.
    `knowgate measure` measures the signals that guards are calibrated on.

    Example: `knowgate eval ookb --questions kb.jsonl --model embedded --guard off
    --guard run --out replies`
    """

    name = "ookb"
    settings, row, key = OokbSettings, ReplyRow, "reply_id"
    manifest_model = RepliesManifest
    takes_model = False
    # What a logged reply lacks is a row of its own.
    stop_on = ()

    def __init__(
        self,
        models: Mapping[str, Runnable[Any, Any]] | None = None,
        *,
        judges: Sequence[Judge] = (),
        encoder: Callable[[], Encoder] = BiEncoderScorer,
    ) -> None:
        """Make the suite; without arguments everything comes from the settings.

        Args:
            models: chains or chat models by name, in the place of names in the settings.
            judges: objects, in the place of names in the settings.
            encoder: makes the retriever's encoder, called only where something searches.
        """
        self._models, self._judges, self._encoder = dict(models or {}), judges, encoder

    @property
    def rows(self) -> TableSpec[ReplyRow]:
        """The table of replies."""
        return RepliesRun.REPLIES

    def cases(self, settings: OokbSettings) -> OokbCases:
        """Read questions, logs, policies and prompts."""
        return OokbCases.of(prepare(settings, self._models))

    def limited(self, cases: Sequence[OokbCase], limit: int | None) -> Sequence[OokbCase]:
        """Return all: the questions of each file were limited when they were read."""
        del limit
        return cases

    def systems(
        self, settings: OokbSettings, cases: Sequence[OokbCase], given: Sequence[System]
    ) -> Sequence[System]:
        """Return every model × prompt × retrieval × guard, then the systems of the logs."""
        del settings, given
        prepared = _of(cases).prepared
        logged: dict[str, dict[str, Replayed]] = {}
        for item in prepared.replay.items:
            logged.setdefault(item.system.system_id, {})[item.reply_id] = item
        return [
            *(OokbSystem(live, None) for live in prepared.systems.live),
            *(OokbSystem(one, logged[one.system_id]) for one in prepared.replay.systems),
        ]

    def order(
        self, cases: Sequence[OokbCase], systems: Sequence[System]
    ) -> list[tuple[OokbCase, System]]:
        """Ask all systems about one case after the other; then take the replies of the logs.

        So a run that is interrupted has asked all systems about the same cases.
        """
        by_id = {case.case_id: case for case in cases}
        by_name = {system.name: system for system in systems}
        items = _of(cases).prepared.items()
        return [(by_id[one.case.case_id], by_name[one.system.system_id]) for one in items]

    def begin(
        self,
        settings: OokbSettings,
        cases: Sequence[OokbCase],
        systems: Sequence[System],
        folder: Path,
    ) -> OokbCases:
        """Load models and judges, and make up the synthetic questions."""
        prepared = _of(cases).prepared
        chosen = self._judges or settings.judges
        # Wrong names are reported before anything is paid for.
        judges = load_judges(chosen) if chosen else ()
        run = SystemRun(
            prepared.systems,
            {base.name: base.knowledge_base for base in prepared.bases},
            self._encoder,
            top_k=settings.top_k,
            characters=settings.context_chars,
        )
        if prepared.makes_up_questions:
            prepared = replace(prepared, synthetic=_made_up(folder, prepared, run))
        run.require(prepared.items())
        found = OokbCases.of(prepared)
        found.run, found.judges = run, judges
        return found

    def manifest(
        self, settings: OokbSettings, cases: Sequence[OokbCase], systems: Sequence[System]
    ) -> RepliesManifest:
        """Name what decides the replies: systems, questions, models and retriever."""
        prepared, run = _of(cases).prepared, _of(cases).run
        searches = run.searches(prepared.items())
        stored = {
            **settings.manifest(),
            "passage": prepared.passage_kind.value,
            "scorer": settings.scorer,
            "writer": settings.writer,
            "models": run.systems.fingerprints(),
            "retriever": run.encoder.fingerprint.model_dump() if searches else None,
        }
        return prepared.asked().manifest(stored, prepared.inputs())

    def files(
        self, settings: OokbSettings, cases: Sequence[OokbCase]
    ) -> Mapping[str, Callable[[Path], object]]:
        """Store questions, passages and cases."""
        del settings
        return _of(cases).prepared.asked().files()

    def prepare(self, work: Work[OokbSettings, OokbCase]) -> None:
        """Check that left-out answers are gone, and find the contexts of all cases."""
        prepared, run = _of(work.cases).prepared, _of(work.cases).run
        folder, options = work.run.folder, work.options
        for warning in prepared.replay.warnings:
            work.note(f"left out: {warning}")
        note_left_out_check(folder, prepared.bases, prepared.left_out(), run.index)
        replier = run.retrieve(
            folder,
            prepared.items(),
            prepared.passages(),
            limits=options.limits,
            on_progress=options.on_progress,
            retry_failed=options.retry_failed,
        )
        for system in work.systems:
            cast(OokbSystem, system).replier = replier

    async def answer(self, cases: Sequence[OokbCase], system: System) -> Iterable[ReplyRow]:
        """Ask the system, or take the reply of the log."""
        return [await _replier(system)(cast(OokbSystem, system).item(case)) for case in cases]

    def failed(self, case: OokbCase, system: System, error: Exception) -> ReplyRow:
        """Return the row of a case without a reply, with what was spent on it."""
        return _replier(system).failed(cast(OokbSystem, system).item(case), error)

    def remote(self, work: Work[OokbSettings, OokbCase]) -> Callable[[], Any]:
        """Return what answers in the workers of a Ray cluster."""
        prepared, run = _of(work.cases).prepared, _of(work.cases).run
        replayed = {item.reply_id: item for item in prepared.replay.items}
        return partial(_Remote, run.remote(_replier(work.systems[0])), replayed)

    def finish(self, work: Work[OokbSettings, OokbCase]) -> None:
        """Store the labels that came with logs, and judge the replies."""
        cases, folder = _of(work.cases), work.run.folder
        rows = work.run[RepliesRun.REPLIES].rows()
        if cases.prepared.replay.items:
            by_id = {row.reply_id: row for row in rows}
            with RepliesRun.JUDGEMENTS.open(folder) as table:
                table.extend(given_judgements(cases.prepared.replay, by_id))
        if cases.judges:
            failed = judge_replies(folder, cases.judges, rows, work.options)
            if failed:
                work.note(
                    f"{counted(failed, 'verdict')} of the judges failed: ask again with "
                    f"`knowgate judge {folder} --retry-failed`"
                )

    def dry_run(
        self, settings: OokbSettings, cases: Sequence[OokbCase], systems: Sequence[System]
    ) -> DryRun:
        """Estimate calls and tokens of every system."""
        del settings, systems
        return cost_table(_of(cases).prepared)

    def check(self, run: SuiteRun[ReplyRow]) -> None:
        """Check nothing yet: the tables of a run of replies are checked together by `score`."""

    def score(self, run: SuiteRun[ReplyRow]) -> RepliesSummary:
        """Compute the numbers of the run."""
        return summarise_replies(run.folder)

    def compare(
        self, run: SuiteRun[ReplyRow], others: Sequence[SuiteRun[ReplyRow]]
    ) -> RepliesSummary:
        """Compute the numbers, and the differences to other runs of replies."""
        return summarise_replies(run.folder, compare=[other.folder for other in others])

    def report(self, summary: RepliesSummary) -> Document:
        """Show which system abstains when it should."""
        return replies_document(summary)


class _Remote:
    """Answers in a worker process.

    Args:
        make: makes the replier.
        replayed: logged replies by reply id.
    """

    def __init__(self, make: Callable[[], Replier], replayed: Mapping[str, Replayed]) -> None:
        self._replier, self._replayed = make(), replayed

    async def answer(self, cases: Sequence[OokbCase], system: OokbSystem) -> list[ReplyRow]:
        """Ask the system, or take the reply of the log."""
        items = [Asked(system.tested, one.case, one.base) for one in cases]
        return [await self._replier(self._replayed.get(one.reply_id, one)) for one in items]


def _of(cases: Sequence[OokbCase]) -> OokbCases:
    assert isinstance(cases, OokbCases)
    return cases


def _replier(system: System) -> Replier:
    replier = cast(OokbSystem, system).replier
    assert replier is not None
    return replier


def _made_up(folder: Path, prepared: Prepared, run: SystemRun) -> dict[str, list[Question]]:
    """Return made-up questions by knowledge base: those of the folder, or else new ones."""
    found: dict[str, list[Question]] = {}
    if (folder / "manifest.json").exists() and RepliesRun.is_in(folder):
        before = RepliesRun.read(folder)
        for case in before.cases.values():
            if case.kind is CaseKind.SYNTHETIC:
                question = before.questions[case.question_id]
                found.setdefault(case.knowledge_base, []).append(question)
        return found
    for base in prepared.bases:
        made = run.synthetic_questions(base.records, seed=prepared.settings.seed)
        found[base.name] = [
            Question(question_id=f"{base.name}/{name}", question=text, knowledge_base=base.name)
            for name, text in made.items()
        ]
    return found


_OF_GUARD = {Judgement.ABSTENTION: "yes", Judgement.FACTUALITY: Judgement.NOT_APPLICABLE}
_REASONING = "the guard's own reply"


def judge_replies(
    folder: Path,
    judges: Sequence[Judge],
    rows: Sequence[ReplyRow],
    options: RunOptions,
) -> int:
    """Judge every reply of a run, except the replies of guards.

    Args:
        folder: of the run.
        judges: at least one, of different names.
        rows: the replies.
        options: of the run: limits, progress, retries.

    Returns:
        How many verdicts failed.

    Raises:
        InputError: the run or a judge cannot be used.
        MissingDependencyError: a judge needs a package that is not there.
    """
    by_guard = frozenset(row.reply_id for row in rows if row.route is Route.ABSTAIN)
    totals = judge_run(
        folder,
        [_KnowsGuards(judge, by_guard) for judge in judges],
        retry_failed=options.retry_failed,
        limits=options.limits,
        on_progress=options.on_progress,
    )
    return totals.failed


class _KnowsGuards:
    """A judge that is not asked about replies which guards gave in a model's place."""

    def __init__(self, judge: Judge, by_guard: Collection[str]) -> None:
        self._judge, self._by_guard = judge, by_guard
        self.name, self.estimate, self.criteria = judge.name, judge.estimate, judge.criteria

    def version(self, criterion: str) -> str:
        """Return the version of the judge itself."""
        return self._judge.version(criterion)

    def wants(self, criterion: str, material: JudgedReply, known: Mapping[str, str]) -> bool:
        """Return what is known of a guard's reply; of others, what the judge wants."""
        if material.reply_id in self._by_guard:
            return criterion in _OF_GUARD
        return self._judge.wants(criterion, material, known)

    async def judge(
        self, criterion: str, material: JudgedReply, known: Mapping[str, str]
    ) -> Verdict:
        """Return the verdict, or what is known without asking."""
        if material.reply_id in self._by_guard:
            return Verdict(_OF_GUARD[criterion], reasoning=_REASONING)
        return await self._judge.judge(criterion, material, known)
