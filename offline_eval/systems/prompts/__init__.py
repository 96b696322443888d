"""Prompts of the systems under test: `<name>.with_context.txt` and `<name>.closed_book.txt`."""

from __future__ import annotations
