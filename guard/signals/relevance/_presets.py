"""Models of others that are known to serve as scorers: `hf:NAME`.

Sizes and licences are those that the makers state on the model's page; read them there before
you use one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ScorerPreset:
    """A model on the hub, and what its number says.

    Attributes:
        hub_id: of the model.
        millions: of parameters.
        licence: of the weights.
        means: what a high number means.
    """

    hub_id: str
    millions: int
    licence: str
    means: str


_APACHE, _CC_BY = "Apache-2.0", "CC-BY-4.0"
_FITS = "logit: the passage is relevant to the question, as search results are judged"
_SPAN = "best answer span minus no answer: the passage holds an answer that can be marked in it"
PRESETS: Mapping[str, ScorerPreset] = MappingProxyType(
    {
        "qnli-electra-base": ScorerPreset(
            "cross-encoder/qnli-electra-base",
            110,
            _APACHE,
            "logit: the passage holds the answer to the question (QNLI, English)",
        ),
        "tinyroberta-squad2": ScorerPreset(
            "deepset/tinyroberta-squad2", 82, _CC_BY, f"{_SPAN} (SQuAD 2.0, English)"
        ),
        "deberta-v3-base-squad2": ScorerPreset(
            "deepset/deberta-v3-base-squad2", 184, _CC_BY, f"{_SPAN} (SQuAD 2.0, English)"
        ),
        "ms-marco-MiniLM-L6-v2": ScorerPreset(
            "cross-encoder/ms-marco-MiniLM-L6-v2", 23, _APACHE, f"{_FITS} (MS MARCO, English)"
        ),
        "gte-reranker-modernbert-base": ScorerPreset(
            "Alibaba-NLP/gte-reranker-modernbert-base", 149, _APACHE, f"{_FITS} (English)"
        ),
        "granite-embedding-reranker-english-r2": ScorerPreset(
            "ibm-granite/granite-embedding-reranker-english-r2", 149, _APACHE, f"{_FITS} (English)"
        ),
        "bge-reranker-v2-m3": ScorerPreset(
            "BAAI/bge-reranker-v2-m3", 568, _APACHE, f"{_FITS} (many languages)"
        ),
        "mxbai-rerank-base-v2": ScorerPreset(
            "mixedbread-ai/mxbai-rerank-base-v2",
            494,
            _APACHE,
            "logit of the word 1 minus that of 0: the passage is relevant (many languages)",
        ),
        "Qwen3-Reranker-0.6B": ScorerPreset(
            "Qwen/Qwen3-Reranker-0.6B",
            596,
            _APACHE,
            "logit of the word yes minus that of no: the passage answers the question "
            "(many languages)",
        ),
    }
)
