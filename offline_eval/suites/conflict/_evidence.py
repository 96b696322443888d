"""Passages that agree with a belief or contradict it: from the data, a template, an editor."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....guard.contracts import LanguageModel
from ....guard.errors import KnowgateError, LanguageModelError
from ....guard.matching import same_answer
from ....guard.text import clean_text
from ...run import RowError, generate_each
from .._prompts import PromptSet
from ._items import Candidate, ConflictItem, EvidenceKind
from ._rows import EvidenceRow

_TAGS = {"answer", "passage", "rationale"}
_MOST_NEW_WORDS = 400


class EditorReplyError(LanguageModelError):
    """An editor's reply lacks what it was asked for."""


@dataclass(frozen=True, slots=True)
class Believed:
    """A question with what is believed: the position of that answer."""

    item: ConflictItem
    belief: int

    @property
    def own(self) -> Candidate:
        """The believed answer."""
        return self.item.answers[self.belief]

    @property
    def rival(self) -> Candidate:
        """The acceptable answer that contradicts it: one with a passage, where there is one."""
        others = [self.item.answers[i] for i in self.item.acceptable if i != self.belief]
        return next((answer for answer in others if answer.passages), others[0])

    @property
    def absurd(self) -> Candidate | None:
        """The implausible answer with a passage, None without one."""
        return next((a for a in self.item.answers if a.implausible and a.passages), None)


class EvidenceMaker:
    """Makes the passages of all kinds.

    Args:
        prompts: `edit_*` for the editor, `rationale` for the template.
        kinds: that are wanted.
        editor: a language model that writes what the data do not have (a plausible passage
            for an answer without one, the implausible one, rationales); None for data and
            template alone.
    """

    def __init__(
        self,
        prompts: PromptSet,
        kinds: Sequence[EvidenceKind],
        editor: LanguageModel | None = None,
    ) -> None:
        self._prompts, self._kinds, self._editor = prompts, tuple(kinds), editor

    def make(self, believed: Sequence[Believed]) -> list[EvidenceRow]:
        """Rows by question, then kind; one that cannot be made says why."""
        made: dict[EvidenceKind, list[EvidenceRow]] = {
            EvidenceKind.NC: [_from_data(one, EvidenceKind.NC, one.own) for one in believed]
        }
        if {EvidenceKind.HPC, EvidenceKind.HPCE} & set(self._kinds):
            made[EvidenceKind.HPC] = self._plausible(believed)
        if EvidenceKind.HPCE in self._kinds:
            made[EvidenceKind.HPCE] = self._explained(believed, made[EvidenceKind.HPC])
        if EvidenceKind.LPC in self._kinds:
            made[EvidenceKind.LPC] = self._implausible(believed)
        return [
            made[kind][number]
            for number in range(len(believed))
            for kind in EvidenceKind
            if kind in self._kinds
        ]

    def _plausible(self, believed: Sequence[Believed]) -> list[EvidenceRow]:
        def prompt(one: Believed) -> str:
            return self._prompts["edit_hpc"].fill(
                question=one.item.question,
                answer=one.rival.text,
                passage=one.own.passages[0],
            )

        return self._edited(
            believed,
            EvidenceKind.HPC,
            [one.rival if one.rival.passages else None for one in believed],
            prompt,
        )

    def _implausible(self, believed: Sequence[Believed]) -> list[EvidenceRow]:
        def prompt(one: Believed) -> str:
            return self._prompts["edit_lpc"].fill(
                question=one.item.question,
                answers="; ".join(answer.text for answer in one.item.answers),
                passage=one.own.passages[0],
            )

        return self._edited(believed, EvidenceKind.LPC, [one.absurd for one in believed], prompt)

    def _edited(
        self,
        believed: Sequence[Believed],
        kind: EvidenceKind,
        ready: Sequence[Candidate | None],
        prompt: Callable[[Believed], str],
    ) -> list[EvidenceRow]:
        rows: list[EvidenceRow | None] = [
            None if answer is None else _from_data(one, kind, answer)
            for one, answer in zip(believed, ready, strict=True)
        ]
        open_places = [
            place for place, row in enumerate(rows) if row is None and believed[place].own.passages
        ]
        if self._editor is not None and open_places:
            replies = generate_each(
                self._editor, [prompt(believed[place]) for place in open_places]
            )
            for place, reply in zip(open_places, replies, strict=True):
                rows[place] = _written(believed[place], kind, reply)
        return [
            row or _missing(one, kind, "neither the data nor an editor has such a passage")
            for one, row in zip(believed, rows, strict=True)
        ]

    def _explained(
        self, believed: Sequence[Believed], plain: Sequence[EvidenceRow]
    ) -> list[EvidenceRow]:
        # Without a passage there is nothing to argue for.
        places = [place for place, row in enumerate(plain) if row.passage]
        prompt = self._prompts["rationale" if self._editor is None else "edit_rationale"]
        texts = [
            prompt.fill(
                question=believed[place].item.question,
                answer=plain[place].answer or "",
                passage=plain[place].passage,
            )
            for place in places
        ]
        found: Sequence[str | KnowgateError] = texts
        if self._editor is not None:
            found = [
                reply if isinstance(reply, KnowgateError) else _tagged(reply[0].text, "rationale")
                for reply in generate_each(self._editor, texts)
            ]
        rationales = dict(zip(places, found, strict=True))
        return [
            _with_rationale(one, row, rationales.get(place, ""), edited=self._editor is not None)
            for place, (one, row) in enumerate(zip(believed, plain, strict=True))
        ]


def _from_data(one: Believed, kind: EvidenceKind, answer: Candidate) -> EvidenceRow:
    if not answer.passages:
        return _missing(one, kind, "the data have no passage for this answer")
    return EvidenceRow(
        row_id=f"{one.item.key}/{kind.value}",
        key=one.item.key,
        kind=kind,
        answer=answer.text,
        aliases=answer.aliases,
        passage=answer.passages[0],
        second=answer.passages[1] if len(answer.passages) > 1 else "",
    )


def _written(one: Believed, kind: EvidenceKind, reply: object) -> EvidenceRow:
    if isinstance(reply, KnowgateError):
        return _failed(one, kind, reply)
    text = reply[0].text if isinstance(reply, list) else ""
    passage = _tagged(text, "passage")
    answer: str | KnowgateError = one.rival.text
    if kind is EvidenceKind.LPC:
        answer = _tagged(text, "answer")
    if isinstance(passage, KnowgateError):
        return _failed(one, kind, passage)
    if isinstance(answer, KnowgateError):
        return _failed(one, kind, answer)
    if kind is EvidenceKind.LPC and _taken(one, answer):
        return _failed(one, kind, EditorReplyError("the editor's answer is one that was taken"))
    aliases = one.rival.aliases if kind is EvidenceKind.HPC else ()
    return EvidenceRow(
        row_id=f"{one.item.key}/{kind.value}",
        key=one.item.key,
        kind=kind,
        answer=answer,
        aliases=aliases,
        passage=passage,
        made_by="editor",
    )


def _taken(one: Believed, answer: str) -> bool:
    names = (name for other in one.item.answers for name in other.names)
    return any(same_answer(answer, name) for name in names)


def _with_rationale(
    one: Believed, row: EvidenceRow, rationale: str | KnowgateError, *, edited: bool
) -> EvidenceRow:
    kind = EvidenceKind.HPCE
    if not row.passage:
        missing = _missing(one, kind, row.reason or "there is no plausible passage to explain")
        return missing if row.error is None else missing.model_copy(update={"error": row.error})
    if isinstance(rationale, KnowgateError):
        return _failed(one, kind, rationale)
    return row.model_copy(
        update={
            "row_id": f"{one.item.key}/{kind.value}",
            "kind": kind,
            "passage": f"{row.passage}\n{rationale}",
            "made_by": "editor" if edited else "template",
        }
    )


def _missing(one: Believed, kind: EvidenceKind, reason: str) -> EvidenceRow:
    return EvidenceRow(
        row_id=f"{one.item.key}/{kind.value}", key=one.item.key, kind=kind, reason=reason
    )


def _failed(one: Believed, kind: EvidenceKind, error: KnowgateError) -> EvidenceRow:
    note = RowError.of(error)
    return _missing(one, kind, "the editor failed").model_copy(
        update={"error": note, "made_by": "editor"}
    )


def _tagged(reply: str, tag: str) -> str | KnowgateError:
    """The content of the last `<tag>` of a reply, up to its end or another tag of ours."""
    assert tag in _TAGS
    parts = re.split(rf"<\s{{0,8}}{tag}\s{{0,8}}>", reply, flags=re.IGNORECASE)
    if len(parts) > 1:
        ends = rf"<\s{{0,8}}/?\s{{0,8}}(?:{'|'.join(sorted(_TAGS))})\s{{0,8}}>"
        content = clean_text(re.split(ends, parts[-1], maxsplit=1, flags=re.IGNORECASE)[0]).strip()
        words = content.split()
        if 0 < len(words) <= _MOST_NEW_WORDS:
            return content
    return EditorReplyError(f"the editor's reply holds no usable <{tag}>")
