"""What each strategy retrieves, and what it never gets to see."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from numpy.typing import NDArray

from knowgate.adapters.langchain import RetrievalError
from knowgate.guard import Fingerprint
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.questions import KnowledgeBase, PassageKind, QuestionRecord
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplyContext
from knowgate.offline_eval.systems._retrievers import (
    basic_rag,
    direct,
    hyde,
    load_retriever,
    long_context,
    own_retriever,
)
from knowgate.offline_eval.systems.plan import RETRIEVALS, Case
from knowgate.offline_eval.systems.retrieval import (
    PassageIndex,
    Retrieved,
    Retriever,
)
from tests.offline_eval.suites.ookb.toy import embed

RECORDS = [
    QuestionRecord("a", "When does the library open?", "At nine in the morning every weekday."),
    QuestionRecord("b", "What does the ferry cost?", "The ferry costs four crowns each way."),
    QuestionRecord("c", "Who runs the museum?", "Ada Holm runs the museum since spring."),
    QuestionRecord("d", "Where is the market?", "The market is beside the old harbour."),
]
BASE: KnowledgeBase = KnowledgeBase.of(RECORDS, PassageKind.ANSWER, where="toy")
CASES = {
    f"{one.question_id}/{kind}": Case(
        f"{one.question_id}/{kind}",
        one.question_id,
        kind,
        one.question,
        BASE.passage_of[one.question_id],
    )
    for one in RECORDS
    for kind in (CaseKind.IN_KB, CaseKind.LEFT_OUT)
}
MADE_UP = Case("s/synthetic", "s", CaseKind.SYNTHETIC, "Is there a night ferry?", "")


class RecordingEncoder:
    """Embeds by counted words, and notes each text."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="recording")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.seen.extend(texts)
        return embed(texts)


_ANSWERS = "<passage>It costs four crowns.</passage> and <passage>The ferry is free.</passage>"


def _ask(retriever: Retriever, case: Case) -> Retrieved:
    async def asked() -> Retrieved:
        return await retriever(case)

    return asyncio.run(asked())


def _passages(found: Retrieved) -> tuple[str, ...]:
    assert found.context is not None
    return found.context.passages


def _texts(found: Retrieved, base: KnowledgeBase = BASE) -> list[str]:
    texts = {one.passage_id: one.text for one in found.passages} | base.passages
    names = [] if found.context is None else found.context.names(base.passages)
    return [texts[name] for name in names]


def test_direct_gives_nothing_to_read() -> None:
    found = _ask(direct, CASES["a/left_out"])

    assert found == Retrieved(context=ReplyContext(kind="none"))
    assert _texts(found) == []


def test_a_long_context_names_what_is_missing_and_copies_nothing() -> None:
    left_out = _ask(long_context, CASES["b/left_out"])
    in_kb = _ask(long_context, CASES["b/in_kb"])
    made_up = _ask(long_context, MADE_UP)

    assert left_out.context == ReplyContext(kind="all_but", passages=("b",))
    assert _texts(left_out) == [RECORDS[at].answer for at in (0, 2, 3)]
    assert _passages(in_kb) == _passages(made_up) == ()
    assert _texts(in_kb) == _texts(made_up) == [record.answer for record in RECORDS]
    assert left_out.passages == ()


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("top_k", [1, 2, 9])
def test_basic_rag_finds_the_nearest_passages_in_their_order(name: str, top_k: int) -> None:
    case = CASES[name]
    index = PassageIndex(BASE, RecordingEncoder())
    without = case.passage_id if case.kind is CaseKind.LEFT_OUT else None

    found = _ask(basic_rag(index, top_k=top_k), case)

    [query] = embed([case.question])
    cosines = [float(np.dot(query, row)) for row in embed(list(BASE.passages.values()))]
    nearest = [list(BASE.passages)[row] for row in np.argsort(-np.asarray(cosines), kind="stable")]
    expected = [name for name in nearest if name != without][:top_k]
    assert list(_passages(found)) == expected
    assert _texts(found) == [BASE.passages[one] for one in expected]


def test_hyde_searches_with_the_mean_of_the_hypothetical_answers() -> None:
    lm = ScriptedLanguageModel(default=_ANSWERS)
    index = PassageIndex(BASE, RecordingEncoder())

    found = _ask(hyde(index, lm, top_k=4), CASES["a/in_kb"])

    mean = embed(["It costs four crowns.", "The ferry is free."]).mean(axis=0)
    order = np.argsort(-(index.matrix @ mean), kind="stable")
    assert list(_passages(found)) == [index.ids[row] for row in order]
    assert (found.calls, found.input_tokens) == (1, None)
    assert "When does the library open?" in lm.prompts[0]
    assert "3" in lm.prompts[0]


@pytest.mark.parametrize("nothing", ["", " \n", "<passage></passage>", "<passage> </Passage>\n"])
def test_a_model_that_says_nothing_to_an_instruction_is_asked_the_plain_question(
    nothing: str,
) -> None:
    encoder = RecordingEncoder()
    lm = ScriptedLanguageModel({"knowledge base": nothing}, default="At the market.")

    found = _ask(hyde(PassageIndex(BASE, encoder), lm, top_k=1), CASES["a/in_kb"])

    assert encoder.seen[len(RECORDS) :] == ["At the market."]
    assert (found.calls, found.input_tokens) == (2, None)
    assert _passages(found) == ("d",)


def test_answers_that_cancel_out_leave_the_first_one() -> None:
    class _Opposite(RecordingEncoder):
        def embed(self, texts: Sequence[str]) -> Any:
            sign = {"up": 1.0, "down": -1.0}
            return np.asarray([[sign.get(text, 1.0), 0.0] for text in texts], dtype=np.float32)

    lm = ScriptedLanguageModel(default="<passage>up</passage><passage>down</passage>")

    found = _ask(hyde(PassageIndex(BASE, _Opposite()), lm, top_k=2), CASES["a/in_kb"])

    assert _passages(found) == ("a", "b")


def test_the_gold_answer_is_in_no_query() -> None:
    encoder, asked = RecordingEncoder(), list[str]()
    lm = ScriptedLanguageModel(default="<passage>made up</passage>")

    def own(question: str) -> list[Document]:
        asked.append(question)
        return []

    index = PassageIndex(BASE, encoder)
    built = len(encoder.seen)
    strategies = [
        *(load_retriever(name, BASE, lambda: index, lm=lm) for name in RETRIEVALS),
        own_retriever(own, BASE),
    ]
    for case in [*CASES.values(), MADE_UP]:
        for strategy in strategies:
            _ask(strategy, case)

    questions = {case.question for case in [*CASES.values(), MADE_UP]}
    assert set(encoder.seen[built:]) == questions | {"made up"}
    assert set(asked) == questions
    for prompt in lm.prompts:
        assert not any(record.answer in prompt for record in RECORDS)
    # A case has nothing to give away.
    assert {field.name for field in dataclasses.fields(Case)} == {
        "case_id",
        "question_id",
        "kind",
        "question",
        "passage_id",
    }


def test_the_left_out_passage_is_dropped_from_ones_own_retriever() -> None:
    answers = [record.answer for record in RECORDS]
    found_by_user = [
        Document(answers[1].upper() + "  "),
        Document(f"About the ferry. {answers[1]} So it is."),
        Document("The ferry sails at dawn."),
        Document(answers[3]),
        Document(answers[0]),
    ]
    own = own_retriever(RunnableLambda(lambda question: found_by_user), BASE, top_k=2)

    left_out, in_kb = _ask(own, CASES["b/left_out"]), _ask(own, CASES["b/in_kb"])

    assert _texts(left_out) == ["The ferry sails at dawn.", answers[3]]
    assert _passages(left_out)[1] == "d"
    assert [passage.text for passage in left_out.passages] == ["The ferry sails at dawn."]
    assert _passages(in_kb)[0] == "b"
    assert len(_passages(in_kb)) == 2


@pytest.mark.parametrize(
    "document",
    [
        "The ferry costs four crowns each way",  # without its full stop
        "the ferry — costs four crowns, each way!",
        "costs four crowns each way.",  # a piece, as indexes of chunks have
        "The ｆｅｒｒｙ costs four crowns each way.",
    ],
)
def test_the_left_out_passage_is_known_by_its_words(document: str) -> None:
    other = "The ferry sails at \ud800 dawn."  # half a character costs no case
    own = own_retriever(lambda question: [document, Document(other)], BASE)

    left_out, in_kb = _ask(own, CASES["b/left_out"]), _ask(own, CASES["b/in_kb"])

    assert _texts(left_out) == [other]
    assert _texts(in_kb) == [document, other]


def test_a_few_words_of_the_left_out_passage_do_not_make_a_document_a_piece_of_it() -> None:
    own = own_retriever(lambda question: ["Four crowns each.", "each way"], BASE)

    assert len(_passages(_ask(own, CASES["b/left_out"]))) == 2


def test_a_short_left_out_passage_is_dropped_only_where_it_stands_alone() -> None:
    records = [dataclasses.replace(RECORDS[0], answer="Yes."), RECORDS[1]]
    base = KnowledgeBase.of(records, PassageKind.ANSWER, where="toy")
    case = Case("a/left_out", "a", CaseKind.LEFT_OUT, "Open?", "a")
    own = own_retriever(lambda question: ["Yes.", "Yes. And there is more."], base)

    assert _texts(_ask(own, case), base) == ["Yes. And there is more."]


def test_ones_own_retriever_may_be_an_async_function_and_find_nothing() -> None:
    async def own(question: str) -> None:
        return None

    assert _passages(_ask(own_retriever(own, BASE), CASES["a/in_kb"])) == ()


def test_the_same_document_counts_once() -> None:
    own = own_retriever(lambda question: ["One.", " one. ", "Two.", ""], BASE)

    assert _texts(_ask(own, CASES["a/in_kb"])) == ["One.", "Two."]


@pytest.mark.parametrize("found", [7, "text", {"page_content": "x"}, [Document("x"), 7]])
def test_what_is_no_list_of_documents_is_a_retrieval_error(found: Any) -> None:
    own = own_retriever(lambda question: found, BASE)

    with pytest.raises(RetrievalError, match="the retriever returned a"):
        _ask(own, CASES["a/in_kb"])


def test_an_error_of_ones_own_retriever_stays_what_it_is() -> None:
    def own(question: str) -> list[str]:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        _ask(own_retriever(own, BASE), CASES["a/in_kb"])
