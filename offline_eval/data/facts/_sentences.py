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
    found = [
        (document.name, index, *told)
        for document in documents
        for index, told in enumerate(_kinds(document.blocks))
    ]
    holders: dict[str, set[str]] = defaultdict(set)
    for name, _, _, text, kind in found:
        holders[_shape(text, kind)].add(name)
    total = len(documents)
    # Headings on every other document, the title of a book say, are no topic of anything.
    seen = Counter(topic for topic, _ in {(block.topic, name) for name, _, block, *_ in found})
    topics = {topic for topic, n in seen.items() if total >= 4 and n * 2 >= total}
    return [
        SentenceRow(
            sentence_id=f"{name}#{index}",
            document=name,
            index=index,
            text=text,
            kind=kind,
            topic=None if block.topic in topics else block.topic,
            boilerplate=block.boilerplate
            or not _RULE["letter"].search(text)
            or len(holders[_shape(text, kind)]) >= max(_REPEATED_ON, total * _REPEATED_SHARE),
        )
        for name, index, block, text, kind in found
    ]


def _kinds(blocks: Iterable[Block]) -> Iterator[tuple[Block, str, TextKind]]:
    for block in blocks:
        if block.kind in (TextKind.HEADING, TextKind.TABLE_ROW):
            yield block, block.text, block.kind
            continue
        unfinished = TextKind.ITEM if block.kind is TextKind.ITEM else TextKind.FRAGMENT
        for text in split_sentences(block.text):
            yield block, text, TextKind.SENTENCE if _RULE["ends"].search(text) else unfinished


def _shape(text: str, kind: TextKind) -> str:
    """The text; "Page 12" without its number, which a sentence keeps: it may be what it says."""
    plain = " ".join(text.split()).lower()
    loose = kind in (TextKind.FRAGMENT, TextKind.HEADING)
    return _DIGITS.sub("#", plain) if loose else plain
