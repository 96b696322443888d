"""Retrieval strategies, synthetic questions, and the check of what is left out.

    case ─► Retriever ─► Retrieved(context by reference, cost)

The question is all that a search gets to see.
"""

from __future__ import annotations

from ._basic_rag import BasicRag
from ._contract import Retrieved, Retriever, context_texts
from ._direct import Direct, LongContext
from ._hyde import HyDE
from ._index import PassageIndex
from ._left_out import AnswerElsewhere, left_out_check
from ._loading import RETRIEVALS, load_retriever
from ._own import OwnRetriever
from ._synthetic import (
    RejectedQuestion,
    RejectReason,
    SyntheticQuestion,
    SyntheticQuestions,
    synthetic_questions,
)
from ._top_k import top_k_in_blocks

__all__ = [
    "RETRIEVALS",
    "AnswerElsewhere",
    "BasicRag",
    "Direct",
    "HyDE",
    "LongContext",
    "OwnRetriever",
    "PassageIndex",
    "RejectReason",
    "RejectedQuestion",
    "Retrieved",
    "Retriever",
    "SyntheticQuestion",
    "SyntheticQuestions",
    "context_texts",
    "left_out_check",
    "load_retriever",
    "synthetic_questions",
    "top_k_in_blocks",
]
