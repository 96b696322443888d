"""Estimate what asking systems costs, before anything is retrieved or asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean

from ..data.bases import AskedBase
from .plan import Asked, Systems

# Rough, and the same for every model: English text by common tokenizers.
_CHARS_PER_TOKEN = 4
# A reply is taken to be as long as the expected answers, and a citation line.
_CITATION_TOKENS = 6
_HYDE_ANSWERS, _HYDE_INSTRUCTION = 3, 400
COUNTED = ("replies", "calls", "input_tokens", "output_tokens")


def estimated_costs(
    systems: Systems,
    asked: Iterable[Asked],
    bases: Mapping[str, AskedBase],
    *,
    top_k: int,
    characters: int | None,
) -> dict[str, dict[str, int]]:
    """Estimate what each system costs, at most where a guard may abstain.

    Tokens come from the length of prompts, passages and expected answers. Further attempts are not
    counted.

    Args:
        systems: that are asked.
        asked: of them and of logged systems, whose replies cost nothing.
        bases: knowledge bases by name.
        top_k: passages per context.
        characters: the most characters of passages in a prompt; None: no bound.

    Returns:
        By system the replies, calls, and tokens in and out.
    """
    # Retrieving is paid for once, whatever the systems that share it.
    paid_by = {one.retrieval: one.system_id for one in reversed(systems.live)}
    found: dict[str, Counter[str]] = {}
    for item in asked:
        name, retrieval = item.system.system_id, item.system.retrieval
        spent = dict.fromkeys(COUNTED, 0) | {"replies": 1}
        if item.logged is None:
            writes = retrieval == "hyde" and paid_by[retrieval] == name
            prompt, base = systems.prompts.get(item.system.prompt), bases[item.base]
            passages = [len(text) for text in base.knowledge_base.passages.values()]
            own = len(base.knowledge_base.passages.get(item.case.passage_id, ""))
            context = {"direct": 0.0, "long_context": float(sum(passages) - own)}.get(
                retrieval, min(top_k, len(passages)) * fmean(passages)
            )
            if characters is not None:
                context = min(context, characters)
            read = len(item.case.question) + context
            written = fmean(len(one.answer) for one in base.records)
            if prompt is not None:
                read += len((prompt.with_context if context else prompt.closed_book).text)
            if writes:
                read += len(item.case.question) + _HYDE_INSTRUCTION
                written += _HYDE_ANSWERS * fmean(passages)
            spent["calls"] = 1 + writes
            spent["input_tokens"] = round(read / _CHARS_PER_TOKEN)
            spent["output_tokens"] = round(written / _CHARS_PER_TOKEN + _CITATION_TOKENS)
        found.setdefault(name, Counter()).update(spent)
    return {name: dict(one) for name, one in found.items()}
