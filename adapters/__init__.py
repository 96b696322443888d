"""Connections to other software: LangChain, Hugging Face models, Ray."""

from __future__ import annotations
