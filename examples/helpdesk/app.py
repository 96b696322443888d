"""A help desk over fifteen pages: its own vector store, paragraph chunks, and a guard in front.

`build(guard)` makes the chain; `retriever` is what `knowgate measure --chain app:retriever` asks.
Everything runs offline: the embedded encoder searches, and the reply quotes the paragraphs that
the guard kept. Put your own store and language model in their places.
"""

from __future__ import annotations

from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStoreRetriever

from knowgate import Guard, GuardedRAG
from knowgate.guard.engine import BiEncoderScorer

PAGES = Path(__file__).parent / "pages"
TOP_K = 5


class EmbeddedEncoder(Embeddings):
    """The encoder that comes with knowgate, as LangChain wants it."""

    def __init__(self) -> None:
        self._encoder = BiEncoderScorer()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [vector.tolist() for vector in self._encoder.embed(texts)]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self.embed_documents([text])[0]


def paragraphs() -> list[Document]:
    """Cut every page into paragraphs, each with its title in front and its page as source."""
    chunks = []
    for page in sorted(PAGES.glob("*.md")):
        title, *texts = page.read_text(encoding="utf-8").strip().split("\n\n")
        for text in texts:
            content = f"{title.lstrip('# ')}: {' '.join(text.split())}"
            chunks.append(Document(content, metadata={"source": page.name}))
    return chunks


def retriever() -> VectorStoreRetriever:
    """Return the retriever as it is served."""
    store = InMemoryVectorStore(EmbeddedEncoder())
    store.add_documents(paragraphs())
    return store.as_retriever(search_kwargs={"k": TOP_K})


def build(guard: Guard, search: VectorStoreRetriever | None = None) -> GuardedRAG:
    """Return the guarded chain."""
    quoting = RunnableLambda(lambda given: given["context"].split("\n\n")[0])
    return GuardedRAG(guard=guard, retriever=search or retriever(), with_context=quoting)
