"""Cut documents into chunks, as a knowledge base serves them, and find those that answer."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from langchain_core.documents import Document

from ....guard.errors import InputError, optional_import
from ....guard.files import AnyPath
from ._blocks import Block, ReadDocument, TextKind
from ._checks import words_of
from ._documents import find_documents, read_document
from ._rows import FailureRow, QuestionRow, SentenceRow, check_sizes

# Tried in this order: section, paragraph, line, sentence, word.
_SECTION, _PARAGRAPH, _LINE = "\n\n\n", "\n\n", "\n"
_SEPARATORS = (_SECTION, _PARAGRAPH, _LINE, r"(?<=[.!?])\s+|(?<=[。！？])", r"\s+", "")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")
# Each text of these is a record of its own and never shares a chunk with another.
_RECORDS = ("table", "records")
# Text between two sentences, such as code, is part of a chunk and not of what they say.
_LEAST_SHARE = 0.9


def load_chunks(
    folder: AnyPath | Sequence[AnyPath], chunk_size: int = 150, chunk_overlap: int = 0
) -> list[Document]:
    """Read documents and cut them into chunks, ready for a LangChain vector store.

    Text is cut before headings where possible, else between paragraphs, sentences and
    words, in this order. Rows of tables and records of JSON files each have their own chunk.

    Args:
        folder: a folder with all below it, a file, or several of them. Every format that
            `knowgate kb build` reads: text, Markdown, HTML, PDF, CSV, TSV, JSON, JSON lines.
        chunk_size: most words in a chunk, at least 1; a Chinese or Japanese character
            counts as a word.
        chunk_overlap: most words that two neighbouring chunks share; below `chunk_size`.

    Returns:
        Chunks in the order of the documents. `metadata["source"]` is the document: its path
        below the folder, or the name of the file; `metadata["chunk"]` is the position of the
        chunk in it, from 0. Files that cannot be read are left out.

    Raises:
        InputError: a size is out of range, a path does not exist, or no file has any text.
        MissingDependencyError: `langchain-text-splitters` is not installed.
    """
    places = [folder] if isinstance(folder, str | os.PathLike) else list(folder)
    documents = [read_document(file) for file in find_documents(places)]
    chunks = chunks_of(documents, chunk_size, chunk_overlap)
    if not chunks:
        where = ", ".join(os.fspath(place) for place in places)
        raise InputError("no document has any text", where=where, hint="name other documents")
    return chunks


def chunks_of(
    documents: Sequence[ReadDocument],
    chunk_size: int = 150,
    chunk_overlap: int = 0,
) -> list[Document]:
    """Cut documents that were read; see `load_chunks`."""
    check_sizes(chunk_size, chunk_overlap)
    splitters = optional_import("langchain_text_splitters")
    splitter = splitters.RecursiveCharacterTextSplitter(
        separators=list(_SEPARATORS),
        is_separator_regex=True,
        keep_separator="end",
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        length_function=lambda text: len(_WORD.findall(text)),
    )
    found: list[Document] = []
    for document in documents:
        parts = [part for text in _texts(document) for part in splitter.split_text(text)]
        found += [
            Document(
                page_content=part.replace(_SECTION, _PARAGRAPH),
                metadata={"source": document.name, "chunk": number},
            )
            for number, part in enumerate(parts)
        ]
    return found


def _texts(document: ReadDocument) -> list[str]:
    """Return what is split by itself: each record, or else the whole document."""
    blocks = [block for block in document.text if not block.boilerplate]
    if document.kind in _RECORDS:
        return [block.text for block in blocks]
    texts = [f"- {one.text}" if one.kind is TextKind.ITEM else one.text for one in blocks]
    seams = [_seam(*both) for both in pairwise(blocks)]
    whole = [part for both in zip(texts, [*seams, ""], strict=False) for part in both]
    return ["".join(whole)] if blocks else []


def _seam(before: Block, after: Block) -> str:
    if before.kind is TextKind.HEADING:
        # Stays with the text below it.
        return _LINE
    if after.kind is TextKind.HEADING:
        return _SECTION
    listed = before.kind is after.kind and after.kind in (TextKind.ITEM, TextKind.TABLE_ROW)
    return _LINE if listed else _PARAGRAPH


def with_chunks(
    questions: Iterable[QuestionRow],
    sentences: Sequence[SentenceRow],
    chunks: Sequence[Document],
) -> tuple[list[QuestionRow], list[FailureRow]]:
    """Replace the passage of each question by the chunk of its document that holds the answer.

    Args:
        questions: whose passage is what states the answer.
        sentences: of all documents; those that questions cite.
        chunks: of all documents.

    Returns:
        The questions with chunks, and a failure for each whose answer no single chunk states:
        leaving out one chunk would leave a part of the answer.
    """
    texts = {(row.document, row.index): row.text for row in sentences}
    by_source: dict[str, list[tuple[Document, list[str]]]] = defaultdict(list)
    for chunk in chunks:
        by_source[chunk.metadata["source"]].append((chunk, words_of(chunk.page_content)))
    found: list[QuestionRow] = []
    failures: list[FailureRow] = []
    for row in questions:
        cited = [texts[row.source, number] for number in row.citations]
        stated = [words_of(text) for text in cited or (row.question, row.answer)]
        holder = _holder(stated, by_source[row.source])
        if holder is None:
            fault = "in_several_chunks", "no single chunk states the answer; larger chunks may"
            failures.append(FailureRow.of("questions", fault, row.source, row.id))
        else:
            own = {"passage": holder.page_content, "chunk": holder.metadata["chunk"]}
            found.append(row.model_copy(update=own))
    return found, failures


def _holder(
    stated: Sequence[Sequence[str]], chunks: Sequence[tuple[Document, list[str]]]
) -> Document | None:
    """Return the first chunk that holds all texts, or nearly all of their words."""
    for chunk, held in chunks:
        if all(f" {' '.join(words)} " in f" {' '.join(held)} " for words in stated):
            return chunk
    wanted = Counter(word for words in stated for word in words)
    shares = [(wanted & Counter(held)).total() / max(1, wanted.total()) for _, held in chunks]
    best = max(shares, default=0.0)
    return chunks[shares.index(best)][0] if best >= _LEAST_SHARE else None
