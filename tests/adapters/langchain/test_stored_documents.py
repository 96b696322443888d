"""The documents of a vector store, whatever it calls its ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from knowgate.adapters.langchain import stored_documents
from knowgate.guard import InputError

TEXTS = [f"Passage {i}." for i in range(600)]


def test_all_documents_are_fetched_in_parts_and_in_order() -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    ids = store.add_texts(TEXTS)
    assert [one.page_content for one in stored_documents(store)] == TEXTS
    assert [one.page_content for one in stored_documents(store, ids[5:7])] == TEXTS[5:7]


class Store(VectorStore):
    """A store that gives documents by their ids and cannot list them."""

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [Document(page_content=TEXTS[int(one)]) for one in ids]

    def similarity_search(self, *_: Any, **__: Any) -> list[Document]:
        return []

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> Store:
        return cls()


class Chroma(Store):
    """As langchain-chroma lists ids."""

    def get(self, *, include: list[str]) -> dict[str, Any]:
        return {"ids": ["3", "4"], "documents": None, "included": include}


class FAISS(Store):
    """As langchain-community lists ids."""

    index_to_docstore_id: ClassVar = {0: "3", 1: "4"}


@pytest.mark.parametrize("store", [Chroma(), FAISS()], ids=["chroma", "faiss"])
def test_stores_that_list_ids_in_their_own_way_need_none(store: VectorStore) -> None:
    assert [one.page_content for one in stored_documents(store)] == TEXTS[3:5]


def test_a_store_that_lists_nothing_needs_ids() -> None:
    with pytest.raises(InputError, match="a Store does not list its documents"):
        list(stored_documents(Store()))
    assert [one.page_content for one in stored_documents(Store(), ["7"])] == TEXTS[7:8]


def test_a_store_without_documents_by_id_is_named() -> None:
    class Bare(Store):
        get_by_ids = VectorStore.get_by_ids

    with pytest.raises(InputError, match="a Bare does not give documents by their ids"):
        list(stored_documents(Bare(), ["7"]))
