"""Documents as blocks of text: what every reader of a file format returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...guard import InputError


class BlockKind(StrEnum):
    """What a block is."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    ITEM = "item"
    TABLE_ROW = "table_row"


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document that no sentence crosses.

    Attributes:
        kind: what it is.
        text: on one line.
        topic: heading that it stands under, if any.
        boilerplate: the format itself says that it is no content.
        level: of a heading, 1 the highest; 0 for others.
    """

    kind: BlockKind
    text: str
    topic: str | None = None
    boilerplate: bool = False
    level: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with its answer, as a document has them.

    Attributes:
        topic: what it is about, if the document says so.
    """

    question: str
    answer: str
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What was found in a document.

    Attributes:
        kind: of the format.
        blocks: in reading order; text that became a pair is not among them.
        pairs: questions with answers that stand there as such.
        faults: (type, detail) of parts that could not be read.
    """

    kind: str
    blocks: tuple[Block, ...] = ()
    pairs: tuple[Pair, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()


class DocumentError(InputError):
    """A document gives no text; it becomes a row of `failures.jsonl`.

    Args:
        type_: `unreadable`, `too_large`, `binary`, `encoding`, `encrypted`, `broken`,
            `empty` or `no_questions`.
        detail: one clause; never the document's text.
    """

    def __init__(self, type_: str, detail: str) -> None:
        self.type, self.detail = type_, detail
        super().__init__(detail, mend="the document is left out")
