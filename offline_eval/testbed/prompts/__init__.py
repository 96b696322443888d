"""Prompts of the microworld's language model; a package, so that builds carry its files."""

from __future__ import annotations
