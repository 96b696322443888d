"""Extension of griffe, which reads the docstrings for the pages of the API."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object


class OneExample(Extension):
    """Take `Example:` for `Examples:`, so that its lines are shown as code."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object after it was read."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^( *)Example:$", r"\1Examples:", obj.docstring.value)
