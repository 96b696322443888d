"""HTTP: the guard as a service, and as a proxy in front of an OpenAI-compatible model.

    POST /v1/decide, /v1/decide/batch, /v1/score     decisions and scores
    POST /v1/chat/completions                        guarded, then asked of the upstream
    GET  /healthz, /readyz, /metrics, /openapi.json

Needs `pip install knowgate[serve]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...guard.registry import names_on_use

if TYPE_CHECKING:
    from ._access import ServeLimits
    from ._access import replay as replay
    from ._app import ProxyOptions, create_app
    from ._server import BoundedServer as BoundedServer
    from ._server import bound_socket as bound_socket
    from ._server import serve
    from ._upstream import Upstream

__all__ = ["ProxyOptions", "ServeLimits", "Upstream", "create_app", "serve"]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "_access": "ServeLimits replay",
        "_app": "ProxyOptions create_app",
        "_server": "BoundedServer bound_socket serve",
        "_upstream": "Upstream",
    },
    extra="serve",
)
