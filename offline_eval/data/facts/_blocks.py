"""Blocks of text, which every reader of a file format returns, and pairs of FAQs in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from ....guard.errors import InputError
from ..rules import Rules

_RULES = Rules(__file__, "blocks")
_RULE = _RULES.patterns
_LONGEST_CAPTION = 45


class TextKind(StrEnum):
    """What a block is, or a sentence; one of a paragraph is whole (`sentence`) or not."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    ITEM = "item"
    TABLE_ROW = "table_row"
    CODE = "code"
    SENTENCE = "sentence"
    FRAGMENT = "fragment"


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document that no sentence crosses.

    Attributes:
        kind: what it is.
        text: on one line; of code, its lines.
        topic: heading that it stands under, if any.
        boilerplate: the format itself says that it is no content.
        level: of a heading, 1 the highest; 0 for others.
    """

    kind: TextKind
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

    def as_block(self) -> Block:
        """Return the question with its answer below it as one block."""
        return Block(TextKind.PARAGRAPH, f"{self.question}\n{self.answer}", self.topic)


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document as read.

    Attributes:
        kind: of the format; empty where nothing could be read, which its only fault explains.
        blocks: prose in reading order, without code and without text that became a pair.
        pairs: questions with answers that stand there as such.
        faults: (type, detail) of parts that could not be read.
        text: everything in reading order, pairs and code included: what is cut into chunks.
        name: what the build calls it.
        sha256: of its bytes; empty where they could not be read.
    """

    kind: str
    blocks: tuple[Block, ...] = ()
    pairs: tuple[Pair, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()
    text: tuple[Block, ...] = ()
    name: str = ""
    sha256: str = ""

    @property
    def failure(self) -> tuple[str, str] | None:
        """Why nothing could be read, as (type, detail); None where something was."""
        return None if self.kind else self.faults[0]


class DocumentError(InputError):
    """A document gives no text; it becomes a row of `failures.jsonl`.

    Args:
        type_: `unreadable`, `too_large`, `binary`, `encoding`, `encrypted`, `broken`,
            `empty` or `no_questions`.
        detail: one clause; never the document's text.
    """

    def __init__(self, type_: str, detail: str) -> None:
        self.type, self.detail = type_, detail
        super().__init__(detail, hint="the document is left out")


def joined(lines: Iterable[str]) -> str:
    """Wrapped lines as one: single spaces, none between Chinese characters.

    Example:
        >>> joined(["a broken ", "white line"]), joined(["这是一", "句话。"])
        ('a broken white line', '这是一句话。')
    """
    parts: list[str] = []
    for line in lines:
        part = " ".join(line.split())
        # A compound broken at its hyphen: "two-" + "way"; joined without a space.
        if parts and not _RULE["hyphenated"].search(parts[-1][-2:]):
            parts.append(" ")
        parts.append(part)
    return _RULE["cjk_seam"].sub("", "".join(parts).strip())


def blocks_of_lines(lines: Iterable[str]) -> list[Block]:
    """Blocks of hard-wrapped text.

    Blank lines, list marks, numbered paragraphs and lines in capitals begin a new
    block; a line in capitals is a heading and the topic of what follows.
    """
    groups: list[tuple[TextKind | None, list[str]]] = []
    unfinished = False
    for line in map(str.strip, lines):
        kind, held = groups[-1] if unfinished else (None, [])
        bullet, numbered = _RULE["bullet"].match(line), _RULE["numbered"].match(line)
        text = line
        if not line or _RULE["page_number"].match(line):
            kind = None
        elif _is_heading(line):
            kind, text = TextKind.HEADING, _RULE["numbered"].sub("", line)
        elif bullet:
            kind, text = TextKind.ITEM, line[bullet.end() :]
        elif numbered and (not held or _RULE["sentence_end"].search(held[-1])):
            kind, text = TextKind.PARAGRAPH, line[numbered.end() :]
        elif not held or (kind is TextKind.PARAGRAPH and _is_caption(held, line)):
            kind = TextKind.PARAGRAPH
        else:
            held.append(line)
            continue
        groups.append((kind, [text]))
        unfinished = kind in (TextKind.ITEM, TextKind.PARAGRAPH)
    blocks: list[Block] = []
    topic: str | None = None
    for kind, held in groups:
        text = joined(held)
        if kind is TextKind.HEADING:
            topic = text
            blocks.append(Block(kind, text, text, level=1))
        elif text:
            page = kind is None
            blocks.append(Block(kind or TextKind.PARAGRAPH, text, topic, boilerplate=page))
    return blocks


def _is_caption(held: list[str], following: str) -> bool:
    """A lone short line without an end, before a line that is not its continuation."""
    if (
        len(held) != 1
        or len(held[0]) > _LONGEST_CAPTION
        or _RULE["sentence_end"].search(held[0][-1])
    ):
        return len(held) == 1 and held[0].endswith(":") and len(held[0].split()) <= 6
    words = held[0].split()
    return len(words) <= 6 and words[-1][0].isupper() and following[0].isupper()


def _is_heading(line: str) -> bool:
    """A short line in capitals, without the end of a sentence."""
    letters = list(filter(str.isalpha, line))
    return (
        len(letters) >= 4
        and all(one.isupper() and one != one.lower() for one in letters)
        and len(line.split()) <= 10
        and not line.endswith((".", "?", "!"))
    )


def text_pairs(lines: Iterable[str]) -> tuple[list[str], list[Pair]]:
    """Take pairs out of plain text.

    A question begins with `Q:` (or `Q1.`, `Question 2:`, `问：`), its answer with `A:`
    (or `Answer:`, `答：`) and ends at a blank line or the next question.

    Returns:
        The other lines, and the pairs.
    """
    # The lines of each entry, and those of its question and its answer; other lines have neither.
    entries: list[tuple[list[str], list[str], list[str]]] = []
    unfinished = False
    for line in lines:
        raw, question, answer = entries[-1] if unfinished else ([], [], [])
        if mark := _RULE["question"].match(line):
            entries.append(([line], [line[mark.end() :]], []))
            unfinished = True
        elif unfinished and not answer and (mark := _RULE["answer"].match(line)):
            raw.append(line)
            answer.append(line[mark.end() :])
        elif unfinished and (line.strip() or not answer):
            raw.append(line)
            (answer or question).append(line)
        else:
            entries.append(([line], [], []))
            unfinished = False
    rest: list[str] = []
    pairs: list[Pair] = []
    for raw, question, answer in entries:
        asked, told = (joined(one).strip("*_ ") for one in (question, answer))
        if asked and told:
            pairs.append(Pair(asked, told))
        else:
            rest += raw
    return rest, pairs


def headed_pairs(blocks: Sequence[Block]) -> tuple[list[Block], list[Pair]]:
    """Take the FAQ entries out of a page.

    A heading that ends in a question mark is a question; its answer is all text up to
    the next heading, where that is not a deeper one.

    Returns:
        The other blocks, and the pairs.
    """
    rest: list[Block] = []
    pairs: list[Pair] = []
    topic: str | None = None
    headings = (at for at, one in enumerate(blocks) if one.kind is TextKind.HEADING)
    for start, end in pairwise(sorted({0, len(blocks), *headings})):
        head, answer = blocks[start], _one_text(blocks[start + 1 : end])
        heading = head.kind is TextKind.HEADING
        asks = heading and head.text.endswith(("?", "？"))
        deeper = end < len(blocks) and blocks[end].level > head.level
        if asks and answer and not deeper:
            pairs.append(Pair(head.text, answer, topic))
        else:
            topic = head.text if heading and not asks else topic
            rest += blocks[start:end]
    return rest, pairs


def _one_text(blocks: Sequence[Block]) -> str:
    """The text of several blocks; items of a list are set apart."""
    text = ""
    for number, block in enumerate(blocks):
        listed = number and block.kind is blocks[number - 1].kind is TextKind.ITEM
        seam = ";" if listed and not text.endswith((".", ";", ",", "!", "?", "。", "；")) else ""
        text += ("" if block.boilerplate else f"{seam} {block.text}") if text else block.text
    return text
