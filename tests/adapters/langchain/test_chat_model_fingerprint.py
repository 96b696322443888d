"""What tells one chat model from another."""

from __future__ import annotations

from typing import Any

from knowgate.adapters.langchain import ChatModelLM
from tests.adapters.langchain.fakes import TalkingModel


def test_the_fingerprint_tells_models_and_options_apart_but_not_keys() -> None:
    def fingerprint(options: dict[str, Any] | None = None, **model: Any) -> str:
        return ChatModelLM(TalkingModel(speak=str, **model), sample_options=options).fingerprint

    same = fingerprint()

    assert same == fingerprint() == fingerprint(api_key="sk-another")
    assert same.startswith("TalkingModel-")
    assert len({same, fingerprint(model_name="talking-2"), fingerprint({"top_p": 0.5})}) == 3


def test_bound_parameters_count_in_the_fingerprint() -> None:
    model = TalkingModel(speak=str)

    plain = ChatModelLM(model).fingerprint
    bound = ChatModelLM(model.bind(top_p=0.5)).fingerprint
    keyed = ChatModelLM(model.bind(top_p=0.5, api_key="sk-third")).fingerprint

    assert bound.startswith("TalkingModel-")
    assert plain != bound == keyed
