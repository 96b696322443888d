"""Language models by the names that the command line takes, and asking them many things."""

from __future__ import annotations

from ._asking import each_or_error, error_note, generate_each
from ._by_name import EMBEDDED, load_chat_model, load_language_model, load_object

__all__ = [
    "EMBEDDED",
    "each_or_error",
    "error_note",
    "generate_each",
    "load_chat_model",
    "load_language_model",
    "load_object",
]
