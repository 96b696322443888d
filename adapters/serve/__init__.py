"""HTTP: the guard as a service, and as a proxy in front of an OpenAI-compatible model.

    POST /v1/decide, /v1/decide/batch, /v1/score     decisions and scores
    POST /v1/chat/completions                        guarded, then asked of the upstream
    GET  /healthz, /readyz, /metrics, /docs, /openapi.json

Needs `pip install knowgate[serve]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...guard.errors import require_extra

if TYPE_CHECKING:
    from ._access import ServeLimits
    from ._app import ProxyOptions, create_app
    from ._server import BoundedServer as BoundedServer
    from ._server import bound_socket as bound_socket
    from ._server import serve
    from ._upstream import Upstream

__all__ = ["ProxyOptions", "ServeLimits", "Upstream", "create_app", "serve"]

_MODULES = {
    "BoundedServer": "_server",
    "ProxyOptions": "_app",
    "ServeLimits": "_access",
    "Upstream": "_upstream",
    "bound_socket": "_server",
    "create_app": "_app",
    "serve": "_server",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562).

    Raises:
        MissingDependencyError: the extra `serve` is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra("serve")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
