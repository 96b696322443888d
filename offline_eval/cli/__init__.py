"""The command line; `main` is the console script's entry point."""

from __future__ import annotations

from ._app import app, main

__all__ = ["app", "main"]
