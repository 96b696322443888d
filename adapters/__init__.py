"""Connections to other software: LangChain, Hugging Face, Ray, other tools' formats."""

from __future__ import annotations
