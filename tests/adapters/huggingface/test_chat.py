"""The LangChain chat model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage

from knowgate.adapters.huggingface import HuggingFaceChatModel, HuggingFaceLM
from knowgate.adapters.langchain import ChatModelLM
from knowgate.guard import LanguageModelError


@pytest.fixture
def chat(lm: HuggingFaceLM) -> HuggingFaceChatModel:
    return HuggingFaceChatModel(lm=lm)


def test_messages_are_joined_by_a_blank_line(chat: HuggingFaceChatModel, lm: HuggingFaceLM) -> None:
    answer = chat.invoke([SystemMessage("Be short."), HumanMessage("Who?")])

    assert answer.content == lm.generate(["Be short.\n\nWho?"])[0][0].text


def test_messages_go_through_the_chat_template_with_their_roles(
    lm: HuggingFaceLM, model: Any, make_tokenizer: Any
) -> None:
    chatty = make_tokenizer()
    chatty.chat_template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    chat = HuggingFaceChatModel(
        lm=HuggingFaceLM.from_objects(model, chatty, max_new_tokens=12, stop=())
    )

    answer = chat.invoke([SystemMessage("S"), HumanMessage("H"), AIMessage("A"), HumanMessage("?")])

    expected = lm.generate(["[system] S\n[user] H\n[assistant] A\n[user] ?\n"])
    assert answer.content == expected[0][0].text


def test_settings_may_be_given_per_call_and_bound(
    chat: HuggingFaceChatModel, lm: HuggingFaceLM
) -> None:
    options: dict[str, Any] = {"temperature": 1.0, "seed": 7, "max_new_tokens": 5}
    expected = lm.generate(["x"], **options)[0][0].text

    assert chat.invoke("x", **options).content == expected
    assert chat.bind(**options).invoke("x").content == expected
    assert HuggingFaceChatModel(lm=lm, **options).invoke("x").content == expected
    letter = expected[1]
    assert chat.invoke("x", stop=[letter], **options).content == expected.split(letter)[0]


def test_tokens_are_counted_and_log_probabilities_given_when_asked(
    chat: HuggingFaceChatModel, lm: HuggingFaceLM
) -> None:
    plain = chat.invoke("count me")
    asked = chat.invoke("count me", logprobs=True)

    [[expected]] = lm.generate(["count me"])
    assert expected.token_logprobs is not None
    assert asked.usage_metadata == {
        "input_tokens": 8,
        "output_tokens": len(expected.token_logprobs),
        "total_tokens": 8 + len(expected.token_logprobs),
    }
    content = asked.response_metadata["logprobs"]["content"]
    assert tuple(entry["logprob"] for entry in content) == expected.token_logprobs
    assert "logprobs" not in plain.response_metadata
    assert asked.response_metadata["finish_reason"] in {"stop", "length"}


def test_streaming_gives_several_chunks_that_sum_to_the_answer(chat: HuggingFaceChatModel) -> None:
    whole = chat.invoke("stream me", logprobs=True)

    chunks = list(chat.stream("stream me", logprobs=True))

    total = sum(chunks[1:], chunks[0])
    assert isinstance(total, AIMessageChunk)
    assert len([chunk for chunk in chunks if chunk.content]) > 1
    assert total.content == whole.content
    assert total.usage_metadata == whole.usage_metadata
    metadata = {**total.response_metadata}
    assert metadata["logprobs"]["content"] == [
        {**entry, "logprob": pytest.approx(entry["logprob"], abs=1e-4)}
        for entry in whole.response_metadata["logprobs"]["content"]
    ]


async def test_async_answers_and_streams_are_the_same(chat: HuggingFaceChatModel) -> None:
    whole = chat.invoke("async")

    answer = await chat.ainvoke("async")
    pieces = [chunk.content async for chunk in chat.astream("async")]

    assert answer.content == whole.content
    assert "".join(map(str, pieces)) == whole.content
    assert len([piece for piece in pieces if piece]) > 1


async def test_the_event_loop_runs_on_while_an_answer_is_streamed(
    chat: HuggingFaceChatModel,
) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count())
    async for _ in chat.astream("loop", max_new_tokens=30):
        pass
    counter.cancel()

    assert turns > 30


def test_a_message_that_is_not_valid_text_is_a_language_model_error(
    chat: HuggingFaceChatModel,
) -> None:
    with pytest.raises(LanguageModelError, match="surrogate"):
        chat.invoke([HumanMessage("\ud800")])


def test_a_chat_model_is_identified_by_its_weights_and_not_by_its_folder(
    folder: Path, copy_of: Callable[..., Path], make_model: Any, tmp_path: Path
) -> None:
    other = copy_of()
    trained = tmp_path / "trained"
    make_model(seed=1).save_pretrained(trained)
    for file in folder.glob("tokenizer*"):
        (trained / file.name).write_bytes(file.read_bytes())

    def identity(path: Path, **settings: Any) -> str:
        chat = HuggingFaceChatModel(lm=HuggingFaceLM(path), **settings)
        return ChatModelLM(chat).fingerprint

    assert identity(folder) == identity(other)
    assert identity(folder) != identity(trained)
    assert identity(folder) != identity(folder, temperature=0.5)
