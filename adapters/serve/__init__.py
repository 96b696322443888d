"""HTTP: the guard as a service, and shapes of OpenAI's chat completions; extra `serve`."""

from __future__ import annotations

__all__: list[str] = []
