"""Models and judges by the names that the command line takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from knowgate.guard import LanguageModel
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.systems.factory import (
    load_chat_model,
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


def test_an_object_is_found_by_its_dotted_attribute() -> None:
    assert load_object("python:os:path.sep") == "/"
