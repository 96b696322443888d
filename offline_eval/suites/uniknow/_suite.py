"""The UniKnow suite as an object that the driver runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from ....adapters.huggingface import HuggingFaceLM, LoadOptions
from ....guard import Guard
from ....guard.contracts import LanguageModel
from ....guard.prompts import Prompt
from ....guard.signals.relevance import load_scorer
from ...report import Document
from ...run import InputFile, TableSpec
from ...systems import local_model
from .._parts import (
    DryRun,
    ModelChoice,
    System,
    Work,
    model_by_name,
    require_not_tuned_on,
)
from ..base import Suite, SuiteRun
from ._cases import Reply, ScenarioCase, SuiteQuestion
from ._choosing import GUARDED, Chosen, Methods, choose_methods, wanted_methods
from ._guard_method import GuardMethod
from ._knowledge import KnowledgeStore
from ._methods import Method
from ._questions import completes, dataset_of, prompts_of, question_file, read_dataset
from ._reading import ROWS, UniKnowManifest, checked_run
from ._report import uniknow_document
from ._report_summary import UniKnowSummary, summarise_uniknow
from ._rows import UniKnowRow, row_id
from ._settings import UniKnowSettings
from ._stages import Parts, Stages, signal_meter

_LOCAL_BATCH, _REMOTE_BATCH = 64, 16
# Settings that the manifest holds in another form: as fingerprints, or as those of training.
_STORED_OTHERWISE = {
    *("data", "model", "dtype", "answer_tokens", "knowledge", "scorer", "seed"),
    *("rank", "epochs", "training_steps", "learning_rate"),
}
# Questions when they are read, cases once `prepare` has built their contexts.
_Case = SuiteQuestion | ScenarioCase


class _MethodSystem(System):
    """A method as a system under test.

    Args:
        name: of the method.
        methods: of the run; None to count cases only.
        given: a guard in front of the model, for a method that is no own one of the suite.
    """

    def __init__(self, name: str, methods: Methods | None, given: System | None = None) -> None:
        guard, sha256 = (None, "") if given is None else (given.guard, given.sha256)
        super().__init__(name, None if methods is None else methods.lm, guard, sha256)
        self._methods = methods

    @property
    def methods(self) -> Methods:
        """The methods of the run."""
        assert self._methods is not None
        return self._methods

    @property
    def method(self) -> Method:
        """The method that answers."""
        if isinstance(self.guard, Guard):
            return GuardMethod(self.name, self.methods.remembering("naive"), self.guard)
        return self.methods.make(self.name)


class UniKnowSuite(Suite[UniKnowSettings, _Case, UniKnowRow, UniKnowSummary]):
    """Knowledge scenarios: context against memory, only one of them, or neither.

    First the model is asked without contexts what it knows; then every method answers every
    question in its contexts. Trained methods learn, and guards are calibrated, on questions
    of their own. Killed and started again with the same arguments, the run continues.

    Example: `knowgate eval uniknow --model embedded --methods all --out run`
    """

    name, settings, row = "uniknow", UniKnowSettings, UniKnowRow
    key, takes_model, manifest_model = "case_id", False, UniKnowManifest

    def __init__(self, parts: Parts | None = None) -> None:
        self._parts = parts or Parts()

    @property
    def rows(self) -> TableSpec[UniKnowRow]:
        """The table of rows."""
        return ROWS

    def cases(self, settings: UniKnowSettings) -> Sequence[SuiteQuestion]:
        """Read the questions; their contexts are built by `prepare`."""
        if settings.knowledge is not None:
            KnowledgeStore(settings.knowledge)  # before anything is asked: is it such a file?
        return read_dataset(settings.data, limit=settings.limit, seed=settings.seed).questions

    def limited(self, cases: Sequence[_Case], limit: int | None) -> Sequence[_Case]:
        """Return all: the questions were limited when they were read."""
        del limit
        return cases

    def load(self, settings: UniKnowSettings, choice: ModelChoice) -> Sequence[System]:
        """Load the model."""
        name = settings.model
        folder = local_model(name)
        if folder is None and ":" in name:
            lm = model_by_name(name, choice.limits)
        else:
            lm = HuggingFaceLM(
                folder or name,
                dtype=settings.dtype,
                max_new_tokens=settings.answer_tokens,
                loading=LoadOptions(chat_template=False if completes(settings.data) else "auto"),
            )
        return [System(name, lm)]

    def systems(
        self, settings: UniKnowSettings, cases: Sequence[_Case], given: Sequence[System]
    ) -> Sequence[System]:
        """Return a system for each method, then one for each guard that was given.

        Raises:
            InputError: a method asked for by name cannot be run on the model, or the scorer of
                the guards was tuned on these questions.
        """
        if not given:
            names = wanted_methods(settings.methods, ablations=settings.ablations)
            return [_MethodSystem(name, None) for name in names]
        lm: LanguageModel = given[0].model
        methods = Methods(lm, prompts_of(settings.data))
        chosen = choose_methods(settings.methods, lm, ablations=settings.ablations)
        if any(name in GUARDED for name in chosen.names):
            scorer = self._parts.scorer or load_scorer(settings.scorer)
            # Its guards are calibrated on some of these questions, and judged on the others.
            asked = {one.id: one.question for one in _questions(cases)}
            require_not_tuned_on(scorer, asked, str(settings.scorer))
            methods.meter = signal_meter(methods, scorer, self._parts.estimator)
        guards = [system for system in given if system.guard is not None]
        return [
            *(_MethodSystem(name, methods) for name in chosen.names),
            *(_MethodSystem(system.name, methods, system) for system in guards),
        ]

    def row_id(self, case: _Case, system: str) -> str:
        """Return the id of a method's row for a case."""
        assert isinstance(case, ScenarioCase)
        return row_id(system, case)

    def batches(self, cases: Sequence[_Case], system: System) -> Iterator[Sequence[_Case]]:
        """Split the cases into smaller batches for a remote model."""
        size = _LOCAL_BATCH if self.asks_whole_batches(system) else _REMOTE_BATCH
        for begin in range(0, len(cases), size):
            yield cases[begin : begin + size]

    def inputs(self, settings: UniKnowSettings) -> Sequence[Path]:
        """Return the file of questions."""
        path = question_file(settings.data)
        return [] if path is None else [path]

    def manifest(
        self,
        settings: UniKnowSettings,
        cases: Sequence[_Case],
        systems: Sequence[System],
    ) -> UniKnowManifest:
        """Name the model, the settings that count, the prompts and what measures the signals."""
        methods = cast(_MethodSystem, systems[0]).methods
        chosen = self._chosen(settings, systems)
        lm, meter, parts = methods.lm, methods.meter, self._parts
        kept = settings.model_dump(mode="json", exclude=_STORED_OTHERWISE)
        stored: dict[str, Any] = {"dataset": _questions(cases)[0].dataset}
        stored |= {"model": lm.fingerprint, **kept}
        # Settings that no row depends on must not prevent a run from being resumed.
        if chosen.trained:
            stored["training"] = asdict(parts.training_of(lm, settings))
        if "dpo" in chosen.names:
            stored["preference_training"] = asdict(parts.preference_training_of(lm, settings))
        stored["seed"] = settings.seed
        if parts.editor is not None:
            stored["editor"] = parts.editor.fingerprint
        stored["prompts_sha256"] = {
            name: Prompt(name, text).sha256
            for name, text in sorted(asdict(methods.prompts).items())
            if text
        }
        stored["scorer"] = None if meter is None else meter.scorer.fingerprint.model_dump()
        stored["estimator"] = None if meter is None else meter.estimator.fingerprint.model_dump()
        stored["aggregator"] = None if meter is None else meter.aggregator
        guards = {system.name: system.sha256 for system in systems if system.guard is not None}
        return UniKnowManifest.new(
            suite=self.name,
            settings={**stored, "guards": guards} if guards else stored,
            inputs=tuple(InputFile.of(path) for path in self.inputs(settings)),
            methods=chosen.names,
            left_out=chosen.left_out,
        )

    def prepare(self, work: Work[UniKnowSettings, _Case]) -> None:
        """Plan the cases, calibrate the guards and train the adapters that are missing."""
        first = cast(_MethodSystem, work.systems[0])
        methods = first.methods
        whole = self.asks_whole_batches(first)
        stages = Stages(
            run=work.run,
            settings=work.settings,
            parts=self._parts,
            methods=methods,
            at_once=_LOCAL_BATCH if whole else _REMOTE_BATCH,
            whole_batches=whole,
            on_progress=work.options.on_progress,
        )
        chosen = self._chosen(work.settings, work.systems)
        plan = stages.plan(dataset_of(work.settings.data, _questions(work.cases)), chosen)
        cases = plan.evaluation
        work.cases = cases
        work.systems = [one for one in work.systems if one.name not in plan.file.left_out]
        for name, reason in {**chosen.left_out, **plan.file.left_out}.items():
            work.note(f"left out: {name} ({reason})")
        if methods.meter is not None:
            methods.policy = stages.calibrate(plan, methods.meter)
            guarantee = methods.policy.guarantee
            work.note(f"the guards guarantee: {guarantee.statement if guarantee else ''}")
        if any(system.name == "guard_coiecd" for system in work.systems):
            stages.reuse_replies("coiecd", cases)
        if isinstance(methods.lm, HuggingFaceLM):
            methods.trainer = stages.trainer(plan.training, methods.prompts)
        done = work.run[self.rows].done
        for system in work.systems:
            if any(self.row_id(case, system.name) not in done for case in cases):
                methods.train(system.name, work.options.on_progress)

    def answer(self, cases: Sequence[_Case], system: System) -> list[UniKnowRow]:
        """Answer a batch with one method; a failure costs one case."""
        asked = [case for case in cases if isinstance(case, ScenarioCase)]
        replies = cast(_MethodSystem, system).method.answer(asked)
        return [
            UniKnowRow.of(system.name, case, reply)
            for case, reply in zip(asked, replies, strict=True)
        ]

    def failed(self, case: _Case, system: System, error: Exception) -> UniKnowRow:
        """Return the row of a case without an answer."""
        assert isinstance(case, ScenarioCase)
        note = f"{type(error).__name__}: {error}"
        return UniKnowRow.of(system.name, case, Reply("", abstained=False, error=note))

    def dry_run(
        self,
        settings: UniKnowSettings,
        cases: Sequence[_Case],
        systems: Sequence[System],
    ) -> DryRun:
        """Count the cases of each method, as if all contexts could be built."""
        most = len(cases) * len(settings.kinds)
        counts = {system.name: most for system in systems}
        note = (
            f"{len(cases)} questions, each asked up to {settings.samples} times without a context; "
            "up to a quarter of them is for training, and some contexts cannot be built."
        )
        lines = tuple((name, str(number)) for name, number in counts.items())
        return DryRun(("method", "cases at most"), lines, (note,), {"cases": counts})

    def check(self, run: SuiteRun[UniKnowRow]) -> None:
        """Check that the run has a plan, and rows of its own cases and methods only."""
        checked_run(run.run)

    def score(self, run: SuiteRun[UniKnowRow]) -> UniKnowSummary:
        """Compute the metrics of every method."""
        return summarise_uniknow(checked_run(run.run))

    def report(self, summary: UniKnowSummary) -> Document:
        """Show which method uses which knowledge when."""
        return uniknow_document(summary)

    def _chosen(self, settings: UniKnowSettings, systems: Sequence[System]) -> Chosen:
        lm = cast(_MethodSystem, systems[0]).methods.lm
        chosen = choose_methods(settings.methods, lm, ablations=settings.ablations)
        return Chosen(tuple(system.name for system in systems), chosen.left_out)


def _questions(cases: Sequence[_Case]) -> list[SuiteQuestion]:
    return [case for case in cases if isinstance(case, SuiteQuestion)]
