"""Models and judges by the names that the command line takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from knowgate.guard import InputError, LanguageModel, MissingDependencyError
from knowgate.guard.prompts import Prompt
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.judging.llm_judge import Criterion
from knowgate.offline_eval.systems.factory import (
    load_chat_model,
    load_judges,
    load_language_model,
    load_object,
)

MODULE = """
from langchain_core.language_models import FakeListChatModel
from knowgate.guard.prompts import Prompt
from knowgate.guard.testing import ScriptedLanguageModel

ready = FakeListChatModel(responses=["ready"])
lm = ScriptedLanguageModel(default="from the script")
number = 7

def made():
    return FakeListChatModel(responses=["made"])

def broken():
    raise RuntimeError("no")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "users_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "users_models", raising=False)
    return "python:users_models"


def test_the_embedded_model_answers(module: str) -> None:
    model = load_chat_model("embedded")
    assert isinstance(model, BaseChatModel)
    assert model.invoke([HumanMessage("Q: Who?\nA:")]).content


@pytest.mark.parametrize("name", ["ready", "made"])
def test_an_object_or_what_makes_one_is_taken_from_a_module(module: str, name: str) -> None:
    assert load_chat_model(f"{module}:{name}").invoke("hello").content == name


def test_a_chat_model_serves_as_language_model(module: str) -> None:
    lm = load_language_model(f"{module}:made")
    assert isinstance(lm, LanguageModel)
    assert lm.generate(["hello"])[0][0].text == "made"


def test_a_language_model_is_taken_as_it_is(module: str) -> None:
    assert isinstance(load_language_model(f"{module}:lm"), ScriptedLanguageModel)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_chat_model(str(tmp_path))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [("number", "is a int"), ("broken", "RuntimeError"), ("nothing", "cannot be imported")],
)
def test_what_is_no_model_is_said_in_one_line(module: str, attribute: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        load_chat_model(f"{module}:{attribute}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["", "gpt-9", ":x", "python:", "python:os", "python::x"])
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        load_chat_model(name)


def test_an_unknown_provider_is_refused() -> None:
    pytest.importorskip("langchain.chat_models")
    with pytest.raises((InputError, MissingDependencyError)):
        load_chat_model("nobody-provides:this")


def test_an_object_is_found_by_its_dotted_attribute() -> None:
    assert load_object("python:os:path.sep") == "/"


@pytest.mark.parametrize(
    ("judges", "what"),
    [
        ([], "no judge"),
        (["nobody"], "no such judge"),
        (["detector", "detector"], "one name"),
        (["python:math:pi"], "is not a judge"),
        (["llm:nowhere"], "no such model"),
    ],
)
def test_judges_that_are_none_are_refused(judges: list[str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        load_judges(judges)


def test_a_criterion_without_a_language_model_is_refused() -> None:
    tone = Criterion("tone", Prompt("tone", "Is it friendly?"), ("friendly", "curt"), "tone")
    with pytest.raises(InputError, match="no judge asks"):
        load_judges(["detector"], [tone])
