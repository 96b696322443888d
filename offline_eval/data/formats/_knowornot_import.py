"""Read KnowOrNot's documents into a run of replies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ...run import Judgement, ReplyCase, ReplyContext, ReplyRow, ReplySystem
from .. import QuestionRecord
from ._knowornot_experiments import Experiment, Gathered, QuestionKey, gather
from ._knowornot_export import judge
from ._knowornot_names import KINDS, RETRIEVALS, model_and_guard
from ._knowornot_schemas import QuestionEntry, SavedReply
from ._run_parts import (
    KnownBase,
    OnWarning,
    RunParts,
    WarningCounter,
    base_of_records,
    by_reference,
    input_files,
    plain,
    shared_ids,
    write_run,
)


def import_knowornot(
    files: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    on_warning: OnWarning | None = None,
) -> Path:
    """Make a run of replies from KnowOrNot's documents.

    Input, output and evaluated document of one experiment become one system; its
    verdicts become judgements of judge `given`. Contexts become passages by reference.

    Args:
        files: question, input, output and evaluated documents, in any mix and order, of
            any number of experiments.
        out: run folder; done again with the same files, it changes nothing.
        on_warning: called with what was left out.

    Returns:
        The run folder.

    Raises:
        InputError: a document cannot be read, two contradict each other, none holds a
            reply, or the folder holds something else.
    """
    return write_run(out, knowornot_parts(files), on_warning=on_warning)


def knowornot_parts(files: Sequence[str | os.PathLike[str]]) -> RunParts:
    """What `import_knowornot` writes, in memory.

    Raises:
        InputError: as there.
    """
    gathered = gather(files)
    if not any(experiment.replies for experiment in gathered.experiments):
        raise InputError(
            "these documents hold no reply",
            where=os.fspath(files[0]) if files else "knowornot",
            hint="name an output or evaluated document too",
        )
    building = _Building(*_bases(gathered))
    for experiment in gathered.experiments:
        building.add(experiment)
    return RunParts(
        settings={"source": "knowornot", "experiments": building.experiments},
        systems=list(building.systems.values()),
        questions=[one for base in building.bases.values() for one in base.questions.values()],
        passages=[one for base in building.bases.values() for one in base.passages.values()],
        cases=list(building.cases.values()),
        replies=list(building.replies.values()),
        judgements=building.judgements,
        inputs=input_files(files),
        warnings=building.warnings.warnings(),
    )


_Ids = Mapping[tuple[str, QuestionKey], str]


def _bases(gathered: Gathered) -> tuple[dict[str, KnownBase], _Ids]:
    """All questions with answers that stand anywhere in the documents, by knowledge base.

    Returns:
        The knowledge bases by name, and the ids of their questions there.
    """
    found: dict[str, dict[QuestionKey, QuestionRecord]] = {}
    for name, key, question, answer in _entries(gathered):
        records = found.setdefault(name, {})
        known = records.get(key)
        if known is None or not known.answer:
            records[key] = QuestionRecord(key[0], question, answer)
    ids = {
        (name, key): identifier
        for name, records in found.items()
        for key, identifier in _local_ids(records).items()
    }
    local = {
        name: {
            ids[name, key]: replace(one, question_id=ids[name, key]) for key, one in rows.items()
        }
        for name, rows in found.items()
    }
    shared = shared_ids(local.values())
    return {name: base_of_records(name, rows, shared) for name, rows in local.items()}, ids


def _entries(gathered: Gathered) -> Iterator[tuple[str, QuestionKey, str, str]]:
    for document in gathered.documents:
        for entry in document.questions:
            key = (entry.identifier, plain(entry.question))
            yield document.knowledge_base_identifier, key, entry.question, entry.answer
    for experiment in gathered.experiments:
        name = experiment.metadata.knowledge_base_identifier
        for key, asked in experiment.asked.items():
            question = asked.source_context_qa
            yield name, key, question.question, question.expected_answer
    # After those: a context never decides the order of what was asked.
    for experiment in gathered.experiments:
        name = experiment.metadata.knowledge_base_identifier
        for key in experiment.asked:
            for pair in experiment.context(key) or ():
                if pair.identifier and pair.question:
                    yield name, (pair.identifier, plain(pair.question)), pair.question, pair.answer


def _local_ids(keys: Iterable[QuestionKey]) -> dict[QuestionKey, str]:
    """An id for each question: where one has two texts, the second gets a number."""
    found: dict[QuestionKey, str] = {}
    wanted = list(keys)
    taken = {identifier for identifier, _ in wanted}
    first: set[str] = set()
    for key in wanted:
        name, number = key[0], 1
        if name in first:
            while name in taken:
                number += 1
                name = f"{key[0]}~{number}"
            taken.add(name)
        first.add(key[0])
        found[key] = name
    return found


@dataclass(slots=True)
class _Building:
    bases: dict[str, KnownBase]
    ids: _Ids
    systems: dict[str, ReplySystem] = field(default_factory=dict)
    experiments: list[dict[str, Any]] = field(default_factory=list)
    cases: dict[str, ReplyCase] = field(default_factory=dict)
    replies: dict[str, ReplyRow] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)
    warnings: WarningCounter = field(default_factory=WarningCounter)
    _done: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, experiment: Experiment) -> None:
        metadata = experiment.metadata
        if not experiment.replies:
            detail = "the experiment has no output document; its questions are kept"
            where = experiment.where
            self.warnings.add("experiment_without_replies", where, where, detail)
            return
        system = self._system(experiment)
        base = self.bases[metadata.knowledge_base_identifier]
        rows = {
            key: self._reply(system, base, experiment, key, reply)
            for key, reply in experiment.replies.items()
        }
        evaluations, judgements = judge(experiment.judged, rows)
        self.judgements.extend(judgements)
        self.experiments.append(
            {
                "system_id": system.system_id,
                "knowledge_base": base.name,
                "kind": KINDS[metadata.experiment_type].value,
                "metadata": metadata.model_dump(mode="json"),
                "evaluations": evaluations,
            }
        )

    def _system(self, experiment: Experiment) -> ReplySystem:
        """The system of an experiment; repeated, or with another prompt, it is another one."""
        metadata = experiment.metadata
        model, guard = model_and_guard(metadata.ai_model_used)
        prompt, content = metadata.system_prompt.identifier, metadata.system_prompt.content
        retrieval = RETRIEVALS.get(metadata.retrieval_type, metadata.retrieval_type)
        told = [model or "unknown", retrieval, prompt, f"guard {guard}" if guard != "off" else ""]
        plain_id = "·".join(filter(None, told))
        system = ReplySystem(
            system_id=plain_id,
            model=model,
            prompt=prompt,
            prompt_sha256=_sha256(content) if content else "",
            retrieval=retrieval,
            guard=guard,
            replayed=True,
        )
        number = 1
        while True:
            asked = (system.system_id, metadata.knowledge_base_identifier, metadata.experiment_type)
            if self.systems.get(system.system_id, system) == system and asked not in self._done:
                self._done.add(asked)
                return self.systems.setdefault(system.system_id, system)
            number += 1
            system = system.model_copy(update={"system_id": f"{plain_id}·{number}"})

    def _reply(
        self,
        system: ReplySystem,
        base: KnownBase,
        experiment: Experiment,
        key: QuestionKey,
        reply: SavedReply,
    ) -> ReplyRow:
        kind = KINDS[experiment.metadata.experiment_type]
        question = base.questions[self.ids[base.name, key]]
        case_id = f"{question.question_id}/{kind.value}"
        self.cases.setdefault(
            case_id,
            ReplyCase(
                case_id=case_id,
                question_id=question.question_id,
                kind=kind,
                knowledge_base=base.name,
            ),
        )
        citation = reply.llm_response.citation
        row = ReplyRow(
            reply_id=f"{system.system_id}/{case_id}",
            case_id=case_id,
            system_id=system.system_id,
            context=self._context(base, experiment.context(key)),
            response=reply.llm_response.response,
            citation=None if citation is None else str(citation),
        )
        self.replies[row.reply_id] = row
        return row

    def _context(self, base: KnownBase, pairs: Sequence[QuestionEntry] | None) -> ReplyContext:
        if pairs is None:
            return ReplyContext(kind="none")
        return by_reference(tuple(self._passage(base, pair) for pair in pairs), base)

    def _passage(self, base: KnownBase, pair: QuestionEntry) -> str:
        """The passage of a pair: that of its id if the text is the same, else of its text."""
        text = f"{pair.question}\n{pair.answer}" if pair.question else pair.answer
        local = self.ids.get((base.name, (pair.identifier, plain(pair.question))))
        own = base.questions[local].own_passage if local is not None else ""
        if own in base.passages and base.passages[own].text == text:
            return own
        return base.passage_id(text)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
