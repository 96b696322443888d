"""The prompts of building a knowledge base: text files, each replaceable by the user."""

from __future__ import annotations
