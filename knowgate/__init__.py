"""knowgate: a guard for retrieval-augmented generation.

`knowgate.guard` decides online, `knowgate.calibration` fits its policy,
`knowgate.adapters` connects it to other software, and `knowgate.offline_eval`
measures it before deployment.

Example:
    >>> from knowgate import Guard
    >>> guard = Guard.default()  # doctest: +SKIP
    >>> guard.decide("When does it open?", ["It opens at nine."]).route  # doctest: +SKIP
    <Route.FOLLOW_CONTEXT: 'follow_context'>
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from knowgate._version import __version__

if TYPE_CHECKING:
    from knowgate.adapters.langchain import GuardedRAG
    from knowgate.guard import Decision, Guard, Policy, Route

__all__ = ["Decision", "Guard", "GuardedRAG", "Policy", "Route", "__version__"]

# Imported on first use: the guard needs pydantic and prometheus-client, the chain LangChain.
_MODULES = {
    "Decision": "knowgate.guard",
    "Guard": "knowgate.guard",
    "GuardedRAG": "knowgate.adapters.langchain",
    "Policy": "knowgate.guard",
    "Route": "knowgate.guard",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
