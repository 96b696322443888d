"""Documents to questions with a model that is scripted, and that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from knowgate.guard.errors import InputError
from knowgate.guard.prompts import Prompt
from knowgate.offline_eval.data.facts import BuildSettings, build_questions
from knowgate.offline_eval.data.facts.build import BuildTotals
from knowgate.offline_eval.data.questions import QuestionRecord
from knowgate.offline_eval.run import CallLimits
from knowgate.offline_eval.run.calls import RunOptions
from tests.offline_eval.cli.commands import read_lines
from tests.support.scripted_chat import Script, ScriptedChat, ScriptedTextChat
from tests.support.scripted_facts import scripted_facts

FAST = CallLimits(max_concurrency=16, first_wait=0.001)
RULES = "Keep left on every road. Stop at the red light. Give way to all pedestrians."


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Two documents of three sentences each."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "rules.txt").write_text(RULES)
    (folder / "fees.txt").write_text(
        "A licence costs fifty dollars. A test costs twenty dollars. Parking is free on Sundays."
    )
    return folder


def build(documents: Path, out: Path, chat: ScriptedTextChat, **changes: Any) -> BuildTotals:
    settings = BuildSettings(model=changes.pop("name", "scripted"), **changes.pop("settings", {}))
    options = RunOptions(FAST, **changes)
    return build_questions([documents], out, model=chat, settings=settings, options=options)


def test_every_fact_has_its_sentences_and_its_question(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "kb"

    totals = build(documents, out, ScriptedChat(script=scripted_facts))

    assert (totals.facts, totals.questions, totals.failures) == (6, 6, {})
    # Two requests for facts, six for questions; tokens are words.
    assert totals.now == totals.ever
    assert totals.now["calls"] == 8
    assert totals.now["estimated_replies"] == 0
    fact = read_lines(out / "facts.jsonl")[4]
    assert (fact["document"], fact["citations"]) == ("rules.txt", [1])
    assert fact["text"] == fact["passage"] == "Stop at the red light."
    asked = {row.question_id: row for row in QuestionRecord.read(out / "questions.jsonl")}
    assert len(asked) == 6
    row = asked[fact["fact_id"]]
    assert row.question == "How does “Stop at …” go on?"
    assert (row.answer, row.passage, row.source) == (
        "the red light",
        "Keep left on every road. Stop at the red light. Give way to all pedestrians.",
        "rules.txt",
    )


def faulty_first(bad: str | Mapping[str, Any]) -> tuple[Script, list[list[BaseMessage]]]:
    """A script whose first reply to each request is bad; and what it was told."""
    told: list[list[BaseMessage]] = []

    def script(messages: Sequence[BaseMessage]) -> str | Mapping[str, Any]:
        if len(messages) == 1:
            return bad
        told.append(list(messages))
        return scripted_facts(messages)

    return script, told


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("I cannot do that.", "no JSON object"),
        ({"facts": [{"fact": "Keep left."}], "question": "What?"}, "Field required"),
        (
            {"facts": [{"fact": "A.", "sentences": [9]}], "question": "No mark", "answer": "9"},
            "there is no sentence 9; they go from 1 to 3",
        ),
        (
            {"facts": [{"fact": "A.", "sentences": []}], "question": "No mark", "answer": "9"},
            "it names no sentence",
        ),
        (
            {"facts": [{"fact": "It costs $5,000.", "sentences": [1]}], "question": "No mark",
             "answer": "9"},
            "it has a number that the sentences it names do not have",
        ),
        (
            {"facts": [{"fact": "This passage is long.", "sentences": [1]}],
             "question": "What does this passage say?", "answer": "9"},
            "speaks of the text that it comes from",
        ),
    ],
)  # fmt: skip
def test_a_faulty_reply_is_sent_back_with_what_was_wrong(
    bad: str | Mapping[str, Any], words: str, documents: Path, tmp_path: Path
) -> None:
    script, told = faulty_first(bad)

    totals = build(documents, tmp_path / "kb", ScriptedChat(script=script))

    assert totals.questions == 6
    assert totals.failures == {}
    assert any(words in messages[2].text for messages in told)
    assert all(len(messages) == 3 for messages in told)


def test_a_question_in_the_words_of_its_passage_is_asked_for_again_once_and_kept_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text(
        "Drivers give way to pedestrians at zebra crossings. "
        "Public parking is free on Sundays and holidays. The tram runs at night."
    )
    told: list[str] = []

    def script(messages: Sequence[BaseMessage]) -> Mapping[str, Any]:
        prompt = messages[0].text
        if "Fact: Drivers" in prompt:
            return {
                "question": "Do drivers give pedestrians at zebra crossings way?",
                "answer": "yes",
            }
        if "Fact: Public" in prompt and len(messages) == 1:
            return {"question": "Is public parking free on holidays?", "answer": "yes"}
        if "Fact: Public" in prompt:
            told.append(messages[2].text)
            return {"question": "Do I pay to leave my car in town at weekends?", "answer": "no"}
        return scripted_facts(messages)

    totals = build(tmp_path / "a.txt", tmp_path / "kb", ScriptedChat(script=script))

    assert totals.failures == {"copies_passage": 1}
    # One request for facts, three for questions, of which two were sent back, once each.
    assert totals.now["calls"] == 6
    assert "say it in other words" in told[0]
    rows = read_lines(tmp_path / "kb" / "questions.jsonl")
    assert "Do I pay to leave my car in town at weekends?" in {row["question"] for row in rows}
    assert {row["made_by"] for row in rows} == {"model:scripted"}


def test_a_reply_that_stays_faulty_is_a_typed_failure_and_its_good_part_is_kept(
    documents: Path, tmp_path: Path
) -> None:
    def script(messages: Sequence[BaseMessage]) -> Mapping[str, Any]:
        reply = dict(scripted_facts(messages))
        if "facts" in reply:
            reply["facts"][0]["sentences"] = [7]
        elif "Parking" in messages[0].text:
            reply["question"] = "When does it cost nothing?"
        return reply

    totals = build(documents, tmp_path / "kb", ScriptedChat(script=script))

    assert (totals.facts, totals.questions) == (4, 3)
    assert totals.failures == {"bad_citation": 2, "unclear_reference": 1}
    # Two requests for facts and one for a question, each asked three times; three once.
    assert totals.now["calls"] == 12
    rows = read_lines(tmp_path / "kb" / "failures.jsonl")
    assert rows[0] == {
        "stage": "facts",
        "type": "bad_citation",
        "detail": "fact 1: there is no sentence 7; they go from 1 to 3",
        "document": "fees.txt",
        "about": ["fees.txt#0", "fees.txt#1", "fees.txt#2"],
    }


def test_a_changed_document_redoes_its_own_part_only(documents: Path, tmp_path: Path) -> None:
    build(documents, tmp_path / "kb", ScriptedChat(script=scripted_facts))
    (documents / "rules.txt").write_text(RULES.replace("red light", "amber light"))
    again = ScriptedChat(script=scripted_facts)

    totals = build(documents, tmp_path / "kb", again)

    # Its facts, and the question of the one that is new.
    assert again.calls == 2
    assert totals.questions == 6
    assert {row.answer for row in QuestionRecord.read(tmp_path / "kb" / "questions.jsonl")} >= {
        "the amber light"
    }


def test_prompts_of_a_users_own_are_asked_and_their_answers_stored_under_them(
    documents: Path, tmp_path: Path
) -> None:
    said: list[str] = []

    def script(messages: Sequence[BaseMessage]) -> str | Mapping[str, Any]:
        said.append(str(messages[0].content))
        return scripted_facts(messages)

    build(documents, tmp_path / "kb", ScriptedChat(script=script))
    facts, question = Prompt("mine", "All!\n{sentences}"), Prompt("ours", "Ask!\nFact: {fact}")
    for prompts, words, calls in (
        ({"question_prompt": question}, "Ask!", 6),
        ({"fact_prompt": facts}, "All!", 2),
    ):
        said.clear()
        chat = ScriptedChat(script=script)
        assert build(documents, tmp_path / "kb", chat, settings=prompts).questions == 6
        assert [one[:4] for one in said] == [words] * calls


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("fact_prompt", "Facts of {topic}", r"mine: the prompt has no slot \{sentences\}"),
        ("question_prompt", "{fact} {fatc}", r"mine: .* slot \{fatc\}, which nothing fills"),
    ],
)
def test_a_prompt_without_its_slot_or_with_another_is_refused(
    name: str, text: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        BuildSettings(**{name: Prompt("mine", text)})  # type: ignore[arg-type]
