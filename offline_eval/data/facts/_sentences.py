"""Split blocks into sentences, and mark those that are not content."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from sentencex import segment

from ..rules import Rules
from ._blocks import Block, ReadDocument, TextKind
from ._rows import SentenceRow

_RULE = Rules(__file__, "sentences").patterns
_CUTS = (". ", "! ", "? ", "。", "！", "？")
_DIGITS = re.compile(r"\d+")
# A text repeated on this share of the documents, and on this many, is no content.
_REPEATED_SHARE, _REPEATED_ON = 0.1, 3
# The rules take time that grows with the square of the text.
_LONGEST, _LONGEST_BLOCK = 2_000, 10_000


def language_of(text: str) -> str:
    """`zh`, `ja` or `en`, by the script: all that segmenting asks for.

    Example:
        >>> language_of("交通灯变红时必须停车。"), language_of("Stop at red.")
        ('zh', 'en')
    """
    if _RULE["kana"].search(text):
        return "ja"
    cjk = len(_RULE["chinese"].findall(text))
    return "zh" if cjk * 3 > len(_RULE["letter"].findall(text)) else "en"


def split_sentences(text: str) -> list[str]:
    """The sentences of one block, by rules; nothing is downloaded.

    Example:
        >>> split_sentences("Dr. Tan pays $5.50, e.g. on Jan. 3. He left.")
        ['Dr. Tan pays $5.50, e.g. on Jan. 3.', 'He left.']
    """
    found: list[str] = []
    for piece in _pieces(text, _LONGEST_BLOCK):
        for part in segment(language_of(piece), piece):
            for sentence in _RULE["after_unit"].split(part):
                found += _pieces(sentence.strip(), _LONGEST)
    return found


def _pieces(text: str, longest: int) -> Iterator[str]:
    """The text, cut where it is too long: after a sentence, or else at a space."""
    while len(text) > longest:
        after = max(text.rfind(mark, 1, longest) for mark in _CUTS) + 1
        cut = after or text.rfind(" ", 1, longest)
        cut = cut if cut > 0 else longest
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text


def sentences_of(documents: Sequence[ReadDocument]) -> list[SentenceRow]:
    """All sentences, in the order of the documents.

    What stands on many documents (at least three, and a tenth of all) is marked as
    boilerplate, as are numbers of pages.
    """
    rows = [
        SentenceRow(
            sentence_id=f"{document.name}#{index}",
            document=document.name,
            index=index,
            text=text,
            kind=kind,
            topic=block.topic,
            boilerplate=block.boilerplate or not _RULE["letter"].search(text),
        )
        for document in documents
        for index, (block, text, kind) in enumerate(_kinds(document.blocks))
    ]
    return _repeated_marked(rows, len(documents))


def _kinds(blocks: Iterable[Block]) -> Iterator[tuple[Block, str, TextKind]]:
    for block in blocks:
        if block.kind in (TextKind.HEADING, TextKind.TABLE_ROW):
            yield block, block.text, block.kind
            continue
        unfinished = TextKind.ITEM if block.kind is TextKind.ITEM else TextKind.FRAGMENT
        for text in split_sentences(block.text):
            yield block, text, TextKind.SENTENCE if _RULE["ends"].search(text) else unfinished


def _repeated_marked(rows: list[SentenceRow], documents: int) -> list[SentenceRow]:
    holders: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        holders[_shape(row)].add(row.document)
    threshold = max(_REPEATED_ON, documents * _REPEATED_SHARE)
    repeated = {shape for shape, names in holders.items() if len(names) >= threshold}
    # Headings on every other document, the title of a book say, are no topic of anything.
    seen = Counter(topic for topic, _ in {(row.topic, row.document) for row in rows})
    topics = {topic for topic, n in seen.items() if documents >= 4 and n * 2 >= documents}
    return [
        row.model_copy(
            update={
                "boilerplate": row.boilerplate or _shape(row) in repeated,
                "topic": None if row.topic in topics else row.topic,
            }
        )
        for row in rows
    ]


def _shape(row: SentenceRow) -> str:
    """The text; "Page 12" without its number, which a sentence keeps: it may be what it says."""
    plain = " ".join(row.text.split()).lower()
    loose = row.kind in (TextKind.FRAGMENT, TextKind.HEADING)
    return _DIGITS.sub("#", plain) if loose else plain
