"""An honest reader without a language model: it quotes, it never composes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda

from ...guard.relevance import BiEncoderScorer

# After closing punctuation and a space, before a capital letter or a digit.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(]?[A-Z0-9])")


class ScorerEmbeddings(Embeddings):
    """LangChain embeddings from the bi-encoder that also judges relevance."""

    def __init__(self, encoder: BiEncoderScorer) -> None:
        self._encoder = encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Unit-length embeddings of `texts`."""
        vectors: list[list[float]] = self._encoder.embed(texts).tolist() if texts else []
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The unit-length embedding of `text`."""
        return self.embed_documents([text])[0]


def extractive_reader(encoder: BiEncoderScorer) -> RunnableLambda[Mapping[str, Any], str]:
    """A runnable that answers with the sentence of the context nearest to the question.

    Its input has `question` and `context`, as `GuardedRAG` gives it.
    """

    def read(given: Mapping[str, Any]) -> str:
        sentences = split_sentences(str(given["context"]))
        vectors = encoder.embed([str(given["question"]), *sentences])
        return sentences[int(np.argmax(vectors[1:] @ vectors[0]))]

    return RunnableLambda(read)


def split_sentences(text: str) -> list[str]:
    """Sentences of plain English prose; the whole text where no end is found.

    Example:
        >>> split_sentences("It opens at 9. Dogs stay out!")
        ['It opens at 9.', 'Dogs stay out!']
    """
    found = [part.strip() for line in text.splitlines() for part in _SENTENCE_END.split(line)]
    return [part for part in found if part] or [text]
