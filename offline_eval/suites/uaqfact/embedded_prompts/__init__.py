"""Prompts for the bundled language model, in the words that it was taught."""

from __future__ import annotations
