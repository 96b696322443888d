"""What is left out, and counted as one, where questions are asked of their own passages.

records ─► pages of each passage ─► with the pages on its topic ─► what goes, and units of evidence
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ....guard.errors import InputError
from ...data import KnowledgeBase, Label, PassageKind, QuestionRecord, units
from ...run import LeaveOut
from ._instruments import MeasuredCase
from ._settings import MeasureSettings
from ._topics import Topics


@dataclass(frozen=True, slots=True)
class OwnPassages:
    """The passages of a knowledge base that go together.

    Attributes:
        left_out: by passage, the ids of those that are left out with it.
        unit: by passage, the one whose evidence it shares.
    """

    left_out: Mapping[str, frozenset[str]]
    unit: Mapping[str, str]

    @classmethod
    def of(
        cls, records: Sequence[QuestionRecord], base: KnowledgeBase, leave_out: LeaveOut
    ) -> OwnPassages:
        """Find what goes together: the passage alone, its page, or its topic.

        The page are the passages whose questions name one `source`, its fragment aside.

        Args:
            records: the questions.
            base: their passages.
            leave_out: what goes.
        """
        if leave_out is LeaveOut.SOURCE:
            return cls({name: frozenset({name}) for name in base.passages}, _same(base.passages))
        pages = _pages(records, base)
        wide = pages if leave_out is LeaveOut.PAGE else _on_topic(base, pages)
        holding: dict[Label, set[str]] = defaultdict(set)
        for name, own in pages.items():
            for page in own:
                holding[page].add(name)
        left_out = {
            name: frozenset(other for page in several for other in holding[page])
            for name, several in wide.items()
        }
        return cls(left_out, units(wide))


def _same(names: Mapping[str, object]) -> dict[str, str]:
    return {name: name for name in names}


def _pages(records: Sequence[QuestionRecord], base: KnowledgeBase) -> dict[str, set[Label]]:
    """Return the pages of each passage; one without a source is a page of its own."""
    named: dict[str, set[Label]] = {name: set() for name in base.passages}
    for record in records:
        label = Label.of(record.source)
        if label is not None:
            named[base.passage_of[record.question_id]].add(label.whole)
    merged = Label.merged(label for several in named.values() for label in several)
    return {
        name: {merged[label] for label in several} or {Label((name,), "passage")}
        for name, several in named.items()
    }


def _on_topic(base: KnowledgeBase, pages: Mapping[str, set[Label]]) -> dict[str, set[Label]]:
    """Return with the pages of each passage those that hold a passage on its topic."""
    topics, texts = Topics(), list(base.passages.values())
    return {
        name: pages[name].union(
            *(
                pages[other]
                for other, near in zip(base.passages, topics.on_topic([text], texts), strict=True)
                if near
            )
        )
        for name, text in base.passages.items()
    }


def left_out_together(
    cases: Sequence[MeasuredCase], settings: MeasureSettings
) -> list[MeasuredCase]:
    """Say in each case which passages of the questions are left out with its own.

    Raises:
        InputError: all questions are on one page or topic, so that nothing is left.
    """
    base = next(one.knowledge_base for one in cases if one.case.passage_id)
    assert base is not None
    # All of the file: the pages of passages whose questions are not asked count, too.
    records = QuestionRecord.read(settings.questions)
    together = OwnPassages.of(records, base, settings.leave_out)
    everything = len(base.passages)
    if all(len(gone) == everything for gone in together.left_out.values()):
        raise InputError(
            f"all questions are on one {settings.leave_out}",
            where=str(settings.questions),
            hint="leaving one out needs at least two: leave out less, or name other questions",
        )
    return [
        replace(
            one,
            left_out=together.left_out[one.case.passage_id],
            unit=together.unit[one.case.passage_id],
        )
        if one.case.passage_id
        else one
        for one in cases
    ]


def sizes_of_units(
    path: Path, leave_out: LeaveOut, kind: PassageKind | None, *, served: bool
) -> list[int]:
    """Count the questions of each unit of evidence, as a run of `knowgate measure` has them.

    Args:
        path: file of the questions.
        leave_out: what goes. Of documents, nobody knows the topics yet: then their pages count.
        kind: what a passage holds.
        served: documents are searched, and what the questions name as their source is left out;
            otherwise the passages of the questions are.

    Raises:
        InputError: the file cannot be used.
    """
    records = QuestionRecord.read(path, need_answer=not served)
    if not served:
        base = KnowledgeBase.of(records, kind, where=str(path))
        unit = OwnPassages.of(records, base, leave_out).unit
        return list(Counter(unit[name] for name in base.passage_of.values()).values())
    named: list[Label | str] = []
    for record in records:
        label = Label.of(record.source)
        if label is not None and leave_out is not LeaveOut.SOURCE:
            label = label.whole
        named.append(label or " ".join((record.passage or record.answer).split()))
    merged = Label.merged(one for one in named if isinstance(one, Label))
    # Of a question of which nothing is known nothing can be left out.
    found = (merged[one] if isinstance(one, Label) else one for one in named if one)
    return list(Counter(found).values())
