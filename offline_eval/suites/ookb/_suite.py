"""The suite of replies: systems under test are asked with the answer in place, and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ....guard.engine import BiEncoderScorer
from ...data.embedding import Encoder
from ...data.questions import PassageKind
from ...judging.contract import Judge
from ...judging.run import judge_run
from ...report.document import Document
from ...run import Question, RepliesRun
from ...run.grouping import grouped
from ...run.manifest import InputFile
from ...run.questions import CaseKind
from ...run.replies import RepliesManifest, ReplyRow
from ...systems.comparison import SystemRun
from ...systems.factory import load_judges
from ...systems.leaving_out import note_left_out_check
from ...systems.plan import Asked
from ...systems.replying import Replier
from ...systems.synthetic import synthetic_questions
from ..base import Suite, SuiteRun
from ..parts import Overview, System, Work
from ._preparing import WORDS, Prepared, cost_table, prepare
from ._replies_report import replies_document
from ._replies_summary import RepliesSummary
from ._settings import OokbSettings

_STORED = {"cases", "passage", "top_k", "context_chars", "seed", "limit"}


class OokbSuite(Suite[OokbSettings, Asked, ReplyRow, RepliesSummary]):
    """Out of the knowledge base: ask each question with its source in place, and left out.

    Asks every model × prompt × retrieval × guard, stores the replies and judges them. A run
    that is killed continues when the same command is started again, and asks nothing twice.
    `knowgate measure` measures the signals that guards are calibrated on.

    Example: `knowgate eval ookb --questions kb.jsonl --model embedded --guard off
    --guard run --out replies`
    """

    name = "ookb"
    settings, row, key = OokbSettings, ReplyRow, "reply_id"
    rows = RepliesRun.REPLIES
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
        self.prepared: Prepared
        self._run: SystemRun
        self._replier: Replier
        self._asked: Sequence[Judge] = ()

    def cases(self, settings: OokbSettings) -> Sequence[Asked]:
        """Read questions, logs, policies and prompts."""
        self.prepared = prepare(settings, self._models)
        return self.prepared.items

    def limited(self, cases: Sequence[Asked], limit: int | None) -> Sequence[Asked]:
        """Return all: the questions of each file were limited when they were read."""
        return cases

    def systems(self, work: Work[OokbSettings, Asked]) -> Sequence[System]:
        """Return every model × prompt × retrieval × guard, then the systems of the logs."""
        return [System(one.system_id) for one in self.prepared.tested]

    def row_id(self, case: Asked, system: str) -> str:
        """Return the id of the reply: a case knows its system."""
        return case.reply_id

    def order(self, work: Work[OokbSettings, Asked]) -> list[tuple[Asked, System]]:
        """Ask in the order of the cases."""
        by_name = {system.name: system for system in work.systems}
        return [(one, by_name[one.system.system_id]) for one in work.cases]

    def begin(self, work: Work[OokbSettings, Asked]) -> None:
        """Load models and judges, and make up the synthetic questions."""
        settings, prepared = work.settings, self.prepared
        chosen = self._judges or settings.judges
        # Wrong names are reported before anything is paid for.
        self._asked = load_judges(chosen) if chosen else ()
        run = self._run = SystemRun(
            prepared.systems,
            {base.name: base.knowledge_base for base in prepared.bases},
            self._encoder,
            top_k=settings.top_k,
            characters=settings.context_chars,
        )
        if CaseKind.SYNTHETIC in settings.cases and prepared.systems.live:
            prepared = replace(prepared, synthetic=self._made_up(work))
            self.prepared = prepared
        run.require(prepared.items)
        work.cases = prepared.items

    def _made_up(self, work: Work[OokbSettings, Asked]) -> dict[str, list[Question]]:
        """Return made-up questions by knowledge base: those of the folder, or else new ones."""
        if (work.folder / "manifest.json").exists() and RepliesRun.is_in(work.folder):
            before = RepliesRun.read(work.folder)
            cases = [case for case in before.cases.values() if case.kind is CaseKind.SYNTHETIC]
            asked = (before.questions[case.question_id] for case in cases)
            return grouped(asked, lambda question: question.knowledge_base)
        run, seed = self._run, work.settings.seed
        return {
            base.name: [
                Question(question_id=f"{base.name}/{name}", question=text, knowledge_base=base.name)
                for name, text in synthetic_questions(
                    base.records, run.encoder, run.writer(), seed=seed
                ).items()
            ]
            for base in self.prepared.bases
        }

    def manifest(self, work: Work[OokbSettings, Asked]) -> RepliesManifest:
        """Name what decides the replies: systems, questions, models and retriever."""
        settings, prepared, run = work.settings, self.prepared, self._run
        # What passages hold: the answers where logs alone are in the run.
        kind = settings.passage or PassageKind.ANSWER
        files = [*(base.file for base in prepared.bases), *map(InputFile.of, settings.replay)]
        stored = {
            **settings.model_dump(mode="json", include=_STORED),
            "passage": (prepared.bases[0].knowledge_base.kind if prepared.bases else kind).value,
            "scorer": settings.scorer,
            "writer": settings.writer,
            "models": run.systems.fingerprints(),
            "retriever": run.encoder.fingerprint.model_dump()
            if run.searches(prepared.items)
            else None,
        }
        questions, passages, asked, _ = prepared.stored
        return RepliesManifest.of(
            questions,
            passages,
            settings=stored,
            systems=prepared.tested,
            inputs=files,
            cases=len(asked),
            replies=len(prepared.items),
        )

    def files(self, work: Work[OokbSettings, Asked]) -> Mapping[str, Callable[[Path], object]]:
        """Store questions, passages and cases."""
        return RepliesRun.files(*self.prepared.stored)

    def prepare(self, work: Work[OokbSettings, Asked]) -> None:
        """Check that left-out answers are gone, and find the contexts of all cases."""
        prepared, run = self.prepared, self._run
        folder = work.run.folder
        for warning in prepared.replay.warnings:
            work.note(f"left out: {warning}")
        _, passages, cases, _ = prepared.stored
        left_out = {one.question_id for one in cases if one.kind is CaseKind.LEFT_OUT}
        asked = [
            ([one for one in base.asked if one.question_id in left_out], base.knowledge_base)
            for base in prepared.bases
        ]
        note_left_out_check(folder, asked)
        self._replier = run.retrieve(folder, prepared.items, passages, work.options)

    async def answer(self, cases: Sequence[Asked], system: System) -> Iterable[ReplyRow]:
        """Ask the system, or take the reply of the log."""
        return await self._replier.answer(cases, system)

    def failed(self, case: Asked, system: System, error: Exception) -> ReplyRow:
        """Return the row of a case without a reply, with what was spent on it."""
        return self._replier.failed(case, error)

    def remote(self, work: Work[OokbSettings, Asked]) -> Callable[[], Any]:
        """Return what answers in the workers of a Ray cluster."""
        return self._run.remote(self._replier)

    def sent(self, case: Asked, system: System) -> tuple[Asked, None]:
        """Return the case, which knows its system: each worker makes its own replier."""
        return case, None

    def finish(self, work: Work[OokbSettings, Asked]) -> None:
        """Store the labels that came with logs, and judge the replies."""
        prepared, folder = self.prepared, work.run.folder
        if prepared.replay.items:
            by_id = {row.reply_id: row for row in work.run[RepliesRun.REPLIES].rows()}
            with RepliesRun.JUDGEMENTS.open(folder) as table:
                table.extend(prepared.replay.judgements_of(by_id))
        if self._asked:
            # Judges are asked here, also where replies come from Ray.
            options = replace(work.options, pool=None)
            failed = judge_run(folder, self._asked, options).failed
            if failed:
                work.note(WORDS.text("verdicts_failed", failed, str(folder)))

    def dry_run(self, work: Work[OokbSettings, Asked]) -> Overview:
        """Estimate calls and tokens of every system."""
        return cost_table(self.prepared)

    def check(self, run: SuiteRun[ReplyRow]) -> None:
        """Check nothing yet: the tables of a run of replies are checked together by `score`."""

    def score(self, run: SuiteRun[ReplyRow]) -> RepliesSummary:
        """Compute the numbers of the run."""
        return RepliesSummary(run.folder)

    def compare(
        self, run: SuiteRun[ReplyRow], others: Sequence[SuiteRun[ReplyRow]]
    ) -> RepliesSummary:
        """Compute the numbers, and the differences to other runs of replies."""
        return RepliesSummary(run.folder, compare=[other.folder for other in others])

    def report(self, summary: RepliesSummary) -> Document:
        """Show which system abstains when it should."""
        return replies_document(summary)
