"""The suite: beliefs of the judge, four cases per question, verdicts, `judge_bias.json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from ....adapters.huggingface import HuggingFaceLM
from ....guard.contracts import LanguageModel, ScoringLanguageModel
from ....guard.errors import InputError, KnowgateError
from ...judging.free_form import parse_yes_no, yes_no_likelihoods
from ...judging.llm_judge import Criterion, NoVerdictError
from ...report.document import Document, Section
from ...report.tables import Figure, Table
from ...report.text import decimal, estimate_text, percent
from ...run import RowError
from ...run.calls import each_or_error, generate_each
from ...run.manifest import Manifest
from ...run.replies import Judgement
from ...systems.factory import load_language_model, local_model
from .._prompts import PromptSet
from ..base import Suite, SuiteRun
from ..conflict.beliefs import (
    BELIEFS,
    conflict_prompts,
    find_beliefs,
)
from ..conflict.items import MICROWORLD, ConflictItem, content_sha256
from ..parts import ModelChoice, SuiteSettings, System, Work
from .artefact import TEXTS, BiasRow, JudgeBias, measure_bias


def bias_cases(believed: Sequence[ConflictItem]) -> list[BiasRow]:
    """Make four cases per question: two contexts, each with both answers as the reply.

    Over the context that contradicts the judge's belief, the reply that follows it is
    contextually right and, to the judge, factually wrong; the other one is the opposite. Over
    the context that agrees, belief and label are one: the controls. Questions without a passage
    for either answer are left out.
    """
    found: list[BiasRow] = []
    for one in believed:
        sides = (("own", one.own), ("rival", one.rival))
        if not all(answer.passages for _, answer in sides):
            continue
        for (context, source), (reply, answer) in product(sides, sides):
            made = BiasRow(
                case_id=f"{one.key}/{context}_context/{reply}_reply",
                number=len(found),
                key=one.key,
                question=one.question,
                context=source.passages[0],
                reply=answer.text,
                label=context == reply,
                believed=reply == "own",
            )
            found.append(made)
    return found


def judge_replies(
    lm: LanguageModel,
    cases: Sequence[BiasRow],
    prompts: PromptSet,
) -> list[bool | KnowgateError]:
    """Judge whether each reply is right, in order; a failure costs one case.

    Args:
        lm: the judge, asked greedily. One that scores options and has no chat template is not
            asked for a tag: yes or no is taken by likelihood.
        cases: with the replies.
        prompts: `judge_right` and `score_right`.
    """

    def filled(name: str) -> list[str]:
        return [
            prompts[name].fill(context=case.context, question=case.question, reply=case.reply)
            for case in cases
        ]

    def score(texts: Sequence[str]) -> list[bool | KnowgateError]:
        assert isinstance(lm, ScoringLanguageModel)
        return [yes > no for yes, no in yes_no_likelihoods(lm, texts)]

    if isinstance(lm, ScoringLanguageModel) and not getattr(lm, "uses_chat_template", False):
        return each_or_error(score, filled("score_right"))
    return [
        reply if isinstance(reply, KnowgateError) else _verdict(reply[0].text)
        for reply in generate_each(lm, filled("judge_right"))
    ]


def _verdict(reply: str) -> bool | KnowgateError:
    tagged = Criterion.parse_tag(reply, "right", ("yes", "no"))
    found = parse_yes_no(reply) if tagged is None else tagged.outcome == "yes"
    return NoVerdictError("right", calls=1) if found is None else found


_FILE = "judge_bias.json"
_EXPLAINED_TOKENS = 160


class BiasSettings(SuiteSettings):
    """What decides the verdicts.

    Attributes:
        judge: A model as `knowgate judge` names it: llm:MODEL, or MODEL alone.
        data: microworld, or a file or folder as for `knowgate eval conflict`.
        beliefs: How the judge's beliefs are found, given: with the data
        prompts: Folder with prompts of your own; see the guide.
    """

    judge: str
    data: str = MICROWORLD
    beliefs: Literal["given", "asked", "closed_book"] = "asked"
    prompts: Path | None = None

    @property
    def name(self) -> str:
        """Name of the judge, as the artefact has it."""
        return Judgement.LLM_PREFIX + self.judge.removeprefix(Judgement.LLM_PREFIX)


def _prompts(settings: BiasSettings) -> PromptSet:
    return PromptSet(f"{__package__}.prompts", settings.prompts)


_BELIEFS = replace(BELIEFS, hint="run `knowgate eval judge-bias` again into another folder")


class JudgeBiasSuite(Suite[BiasSettings, BiasRow, BiasRow, JudgeBias]):
    """How far a judge follows its own beliefs where the context contradicts them.

    `--out` names the artefact, or a folder for it and the run. The run, with the beliefs and
    verdicts, is kept in the folder; killed and started again with the same arguments, it
    continues.

    Example: `knowgate eval judge-bias --judge llm:openai:gpt-4.1 --out judge_bias.json`
    """

    name = "judge-bias"
    settings = BiasSettings
    row = BiasRow
    key = "case_id"
    takes_model = False
    batch_size = 16

    def __init__(self, items: Sequence[ConflictItem] | None = None) -> None:
        self._items = items

    def cases(self, settings: BiasSettings) -> Sequence[Any]:
        """Read the questions; the cases follow from the judge's beliefs."""
        if self._items is not None:
            return self._items
        return ConflictItem.read(settings.data).items

    def load(self, settings: BiasSettings, choice: ModelChoice) -> Sequence[System]:
        """Load the judge."""
        name = settings.name.removeprefix(Judgement.LLM_PREFIX)
        lm = load_language_model(name, choice.limits)
        chats = isinstance(lm, HuggingFaceLM) and lm.uses_chat_template
        if chats and local_model(name) is not None:
            # An explanation comes before the verdict.
            lm = load_language_model(name, choice.limits, explained=_EXPLAINED_TOKENS)
        return [System(settings.name, lm)]

    def folder(self, out: Path) -> Path:
        """Return `bias` for `bias.json`."""
        return out.with_suffix("") if out.suffix == ".json" else out

    def row_id(self, case: BiasRow, system: str) -> str:
        """Return the id of the case: there is one judge."""
        return case.case_id

    def manifest(self, work: Work[BiasSettings, Any]) -> Manifest:
        """Name the judge, its prompts, and the questions by their content."""
        settings = work.settings
        cases = work.cases
        return Manifest.new(
            suite=self.name,
            settings={
                "judge": settings.name,
                "model": work.systems[0].fingerprint,
                "beliefs": settings.beliefs,
                "data": settings.data if settings.data == MICROWORLD else Path(settings.data).name,
                "limit": settings.limit,
                "prompts": _prompts(settings).sha256,
                "belief_prompts": conflict_prompts(settings.prompts).sha256,
            },
            questions=len(cases),
            questions_sha256=content_sha256(cases),
        )

    def prepare(self, work: Work[BiasSettings, Any]) -> None:
        """Find the judge's beliefs, and make the cases.

        Raises:
            InputError: it believes nothing of which there is a passage for and against.
        """
        settings = work.settings
        lm, prompts = work.systems[0].model, conflict_prompts(settings.prompts)
        work.cases = bias_cases(find_beliefs(lm, prompts, settings.beliefs, work, _BELIEFS))
        if not work.cases:
            raise InputError(
                "the judge has no belief on any question with a passage for and against it",
                where=settings.data,
                hint="use other questions, or --beliefs given",
            )

    def answer(self, cases: Sequence[BiasRow], system: System) -> Iterable[BiasRow]:
        """Ask the judge; a failure costs one case."""
        verdicts = judge_replies(system.model, cases, _prompts(system.settings))
        for case, verdict in zip(cases, verdicts, strict=True):
            if isinstance(verdict, KnowgateError):
                yield self.failed(case, system, verdict)
            else:
                yield case.model_copy(update={"right": verdict})

    def failed(self, case: BiasRow, system: System, error: Exception) -> BiasRow:
        """A row without a verdict."""
        return case.model_copy(update={"error": RowError.of(error)})

    def finish(self, work: Work[BiasSettings, Any]) -> None:
        """Write the artefact."""
        bias = self.score(SuiteRun(self, work.run))
        path = work.out if work.out.suffix == ".json" else work.out / _FILE
        bias.write(path)
        work.note(f"{bias.questions} questions, {bias.cases} verdicts, {bias.no_verdict} without")
        for title, estimate, *_ in _figures(bias):
            work.note(f"{title}: {estimate_text(estimate, decimal)}")
        if (warning := bias.warning) is not None:
            work.note(f"warning: {warning}")
        work.note(f"judge bias → {path}")

    def score(self, run: SuiteRun[BiasRow]) -> JudgeBias:
        """Compute the numbers of the verdicts so far."""
        settings = run.manifest.settings
        rows = sorted(run.rows, key=lambda row: row.number)
        about = {name: settings[name] for name in ("beliefs", "data", "prompts")}
        about |= {"created_by": run.manifest.created_by, "fingerprint": settings["model"]}
        return measure_bias(rows, judge=settings["judge"]).model_copy(update=about)

    def report(self, summary: JudgeBias) -> Document:
        """Show the numbers, and the warning."""
        warning = summary.warning
        stored = summary.model_dump(include={"judge", "beliefs", "data", "prompts"})
        settings = {"judge": summary.judge, "model": summary.fingerprint, **stored}
        return Document(
            name="judge_bias",
            title=f"Does {summary.judge} judge by the context?",
            subtitle=f"{summary.questions} questions, {summary.cases} verdicts, "
            f"{summary.no_verdict} cases without one",
            headline=[] if warning else [f"Nothing speaks against the judge {summary.judge}."],
            warnings=[warning] if warning else [],
            sections=[
                Section("Verdicts", (Table.of_figures(_figures(summary)),)),
                Section.of_run(settings, (), summary.created_by),
            ],
            values=summary.model_dump(mode="json"),
        )


def _figures(bias: JudgeBias) -> Iterator[Figure]:
    for line in TEXTS.paragraphs("figures"):
        name, title, meaning = line.split(" :: ")
        yield title, getattr(bias, name), meaning, decimal if name == "kappa" else percent
