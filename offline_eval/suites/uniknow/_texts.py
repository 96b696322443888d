"""What this suite writes: prose by name, and names, titles and published numbers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ...report.prose import Templates

_FOLDER = Path(__file__).parent
TEXTS = Templates(_FOLDER / "report.txt")
CONTENT: dict[str, Any] = tomllib.loads((_FOLDER / "report.toml").read_text(encoding="utf-8"))
