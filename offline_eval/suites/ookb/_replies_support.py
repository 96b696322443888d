"""Which replies their passages do not bear out, per system and by what the check found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....calibration import Interval
from ....guard.reply_check import DEFAULT_THRESHOLD
from ....guard.signals.support import SupportCheck
from ...report.document import Section
from ...report.tables import Cell, Table
from ._replies import Evidence, JudgedReply, rate

# First word of what a check found missing → column; anything else is an answer elsewhere.
_FOUND = {
    "number": "figures",
    "name": "names",
    "quotation": "quotations",
    "negation": "negations",
}
_OTHER, _FEW = "another's place", "few words in common"


class SupportSummary:
    """Replies of one system that were checked against their passages.

    Checked are replies that do not abstain, to contexts of chosen passages whose text the run
    has.

    Args:
        evidence: of the run.
        replies: of the system.

    Attributes:
        checked: how many.
        unsupported: share of them with a sentence below the default threshold.
        found: how many unsupported replies have a fault of each kind.
    """

    def __init__(self, evidence: Evidence, replies: Sequence[JudgedReply]) -> None:
        check, found = SupportCheck(), list[tuple[JudgedReply, bool]]()
        kinds: Counter[str] = Counter()
        for reply in replies:
            texts, said = _passages(evidence, reply), reply.row.response or ""
            if texts is None:
                continue
            support = check.check(said, texts, reply.question.question)
            if all(one.support is None for one in support.sentences):
                continue
            found.append((reply, support.value < DEFAULT_THRESHOLD))
            below = support.unsupported(DEFAULT_THRESHOLD)
            named = {_FOUND.get(what.split()[0], _OTHER) for one in below for what in one.missing}
            kinds.update(named or ([_FEW] if below else ()))
        self.checked = len(found)
        self.unsupported: Interval = rate(found)
        self.found = dict(sorted(kinds.items()))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**vars(self), "unsupported": self.unsupported.to_dict()}


def support_section(summaries: Mapping[str, SupportSummary]) -> Section | None:
    """Make the section on unsupported replies; None where none was checked.

    Args:
        summaries: by name of the system.
    """
    shown = {name: one for name, one in summaries.items() if one.checked}
    if not shown:
        return None
    kinds = sorted({kind for one in shown.values() for kind in one.found})
    found = list(shown.values())
    columns: list[tuple[str, Sequence[Cell]]] = [
        ("Checked", [Cell(str(one.checked)) for one in found]),
        ("Unsupported", Cell.column([one.unsupported for one in found], better=-1)),
        *(
            (kind.capitalize(), [Cell(str(one.found.get(kind, 0))) for one in found])
            for kind in kinds
        ),
    ]
    table = Table.from_columns("System", list(shown), columns)
    return Section("Replies that their passages do not bear out", (_TOLD, table))


_TOLD = (
    "Each reply that does not abstain was compared with the passages in its prompt, sentence by "
    "sentence and without a model: figures, names and quotations must stand there, words mostly. "
    "A reply may be right all the same, from the model's memory, and a supported one may answer "
    "another question."
)


def replies_with_passages(
    run_dir: str | os.PathLike[str],
) -> Iterator[tuple[JudgedReply, list[str]]]:
    """Yield the replies of a run that do not abstain, with the passages in their prompts.

    Raises:
        InputError: it is no run of this suite, or a file of it is broken.
    """
    evidence = Evidence(run_dir)
    for reply in evidence.replies:
        if (texts := _passages(evidence, reply)) is not None:
            yield reply, texts


def _passages(evidence: Evidence, reply: JudgedReply) -> list[str] | None:
    """The passages in the prompt of a reply that does not abstain; None where there are none."""
    context = reply.row.context
    if context is None or context.kind != "passages" or not reply.row.response or reply.abstained:
        return None
    stored = evidence.run.passages
    if not context.passages or any(name not in stored for name in context.passages):
        return None
    return [stored[name].text for name in context.passages]
