"""A tiny untrained Llama in a folder, with a tokenizer of bytes; both made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters.huggingface.conftest import build_model, build_tokenizer, one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    build_model().save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def tokenizer() -> Any:
    return build_tokenizer()
