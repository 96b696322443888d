"""`knowgate serve-lm`: a local language model with OpenAI's interface."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...guard.errors import require_extra
from ._app import app
from ._console import out
from ._serve import served_token


@app.command("serve-lm")
def serve_lm(
    model: Annotated[
        str,
        typer.Option(
            help="embedded, smollm2, gguf:FILE, a model folder, or hf:HUB_NAME (downloaded before)."
        ),
    ] = "embedded",
    name: Annotated[
        str | None, typer.Option(help="What requests call it; by default the name of the model.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address; others than this machine's need KNOWGATE_TOKEN.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8001,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Most tokens of a reply where a request does not say.")
    ] = 64,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests worked on at once.")] = 16,
    queue: Annotated[
        int, typer.Option(min=0, help="Requests that wait; further ones get 429.")
    ] = 256,
    allow_faults: Annotated[
        bool,
        typer.Option(
            "--allow-faults",
            help="Show the fault that the header X-Knowgate-Fault of a request asks for.",
        ),
    ] = False,
) -> None:
    """Serve a local language model with OpenAI's interface, to try things offline.

    `POST /v1/chat/completions` with n, logprobs, top_logprobs, stream, seed, temperature,
    max_tokens and stop, and `GET /v1/models`. The bundled model answers questions about the
    microworld only. Listens on this machine only, unless KNOWGATE_TOKEN is set.

    Example: `knowgate serve-lm --port 8001`
    """
    require_extra("serve")
    from ...adapters import serve as http
    from ...adapters.huggingface import HuggingFaceLM
    from ..systems import local_model

    token = served_token()
    with http.bound_socket(host, port, has_token=token is not None) as listening:
        folder = local_model(model) or model.removeprefix("hf:")
        lm = HuggingFaceLM(folder, max_new_tokens=max_new_tokens)
        called = name or Path(model.removeprefix("hf:").removeprefix("gguf:")).name
        served = http.create_lm_app(
            lm,
            name=called,
            token=token,
            allow_faults=allow_faults,
            limits=http.ServeLimits(concurrency=concurrency, queue=queue),
        )
        listens = f"[{host}]" if ":" in host else host
        url = f"http://{listens}:{listening.getsockname()[1]}/v1"
        out.print(f"serving {called} on {url}", markup=False)
        out.file.flush()
        http.serve(served, listening)
