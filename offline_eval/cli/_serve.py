"""`knowgate serve`: the guard over HTTP, and a proxy in front of an OpenAI-compatible model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field, RootModel

from ...calibration.monitoring import DecisionMonitor
from ...guard import DecisionLog, Guard, GuardOptions, Policy
from ...guard.errors import InputError, require_extra
from ...guard.prompts import Prompt
from ...guard.read_models import read_model
from ...guard.reply_check import OnUnsupported
from ...guard.signals.relevance import load_scorer
from ..systems.guards import own_guard
from ..systems.served import ServedChain
from ._console import out
from ._options import Pairs, documented, reject, require_one

_TOKEN = "KNOWGATE_TOKEN"  # noqa: S105 - the name of a variable
_KEY = "KNOWGATE_UPSTREAM_KEY"
_SHORTEST_TOKEN = 16


class LimitOptions(Pairs):
    """What the service takes on, as `--limits` names it."""

    concurrency: int = Field(1024, ge=1)
    queue: int = Field(1024, ge=0)
    queue_seconds: float = Field(10.0, ge=0.001)
    body_bytes: int = Field(8 * 2**20, ge=1)
    batch: int = Field(256, ge=1)
    upstream_seconds: float = Field(60.0, ge=0.001)
    retriever_seconds: float = Field(10.0, ge=0.001)
    drain_seconds: float = Field(30.0, ge=0)
    notice_seconds: float = Field(0.0, ge=0)


_REPLIES_HINT = 'write e.g. {"default": "I do not know."}'
_FIRST = "calibrate a policy with `knowgate calibrate`; --uncalibrated is for a first try"
_ELSEWHERE = {"upstream_seconds", "retriever_seconds", "drain_seconds", "notice_seconds"}


@documented
def serve(
    *,
    policy: Path | None = None,
    guard: str | None = None,
    uncalibrated: bool = False,
    scorer: str | None = None,
    shadow: bool = False,
    on_unsupported: OnUnsupported | None = None,
    log: Path | None = None,
    monitor: bool = False,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    upstream: Annotated[str | None, typer.Option(envvar="KNOWGATE_UPSTREAM")] = None,
    upstream_model: str | None = None,
    retries: Annotated[int, typer.Option(min=0, max=10)] = 2,
    retriever: str | None = None,
    prompt: Path | None = None,
    replies: Path | None = None,
    limits: LimitOptions,
) -> None:
    """Serve the guard over HTTP, and as a proxy in front of an OpenAI-compatible model.

    Listens on this machine only, unless KNOWGATE_TOKEN is set: requests then bear it
    (`Authorization: Bearer TOKEN`). With `--upstream`, programs get the guard by changing their
    base URL to `http://HOST:PORT/v1`. SIGTERM ends it after the requests under way.

    Example: `knowgate serve --policy policy.json --upstream http://127.0.0.1:8001/v1`

    Args:
        policy: The policy that decides.
        guard: python:module:attribute, a Guard of yours, in place of --policy.
        uncalibrated: Serve the default guard, without a guarantee.
        scorer: The scorer that the policy was calibrated on, where that is no bundled one: a
            folder, hf:MODEL, judge:MODEL or python:module:attribute.
        shadow: Decide and count only; change no reply.
        on_unsupported: What becomes of a reply of the upstream that its passages do not bear
            out: flag (only tell), abstain (the refusal), mark or drop (its unsupported
            sentences). Also serves /v1/check.
        log: Folder for a line of JSON per decision, without text of users.
        monitor: Export drift and risk of the policy as metrics.
        host: Address to listen on; others than this machine's need KNOWGATE_TOKEN.
        port: 0 for any that is free.
        upstream: Base URL of an OpenAI-compatible server to guard; its key is read from
            KNOWGATE_UPSTREAM_KEY.
        upstream_model: Model to ask in place of the one in the request.
        retries: Further calls of the upstream after a failure that may pass.
        retriever: module:attribute of a retriever, a GuardedRAG, or a function from a question
            to documents; asked where a chat request brings no passages.
        prompt: Text with {context} and {question}, in place of the user's message.
        replies: JSON: reason → reply on abstention, or "default" for all.
        limits: concurrency=1024 (requests worked on at once), queue=1024 (that wait; further
            ones get 429), queue_seconds=10 (then one that still waits gets 429),
            body_bytes=8388608, batch=256 (questions in one), upstream_seconds=60 (deadline of
            a reply; of a stream, of each piece), retriever_seconds=10; after SIGTERM
            drain_seconds=30 (wait so long for requests under way) and notice_seconds=0 (answer
            503 at least so long before the end).
    """
    require_extra("serve")
    from ...adapters import serve as http

    token = served_token()
    if upstream is not None:
        model = http.Upstream(
            upstream,
            key=os.environ.get(_KEY) or None,
            model=upstream_model,
            seconds=limits.upstream_seconds,
            retries=retries,
        )
        found = None if retriever is None else ServedChain.load(retriever).retriever
        text = None if prompt is None else Prompt.load(prompt)
        if text is not None:
            text.require_slots({"context", "question"}, where=str(prompt))
        proxied = http.ProxyOptions(
            model, retriever=found, retriever_seconds=limits.retriever_seconds, prompt=text
        )
    else:
        proxied = None
        hint = "name the model to guard with --upstream"
        own = {"retriever": retriever, "prompt": prompt, "upstream_model": upstream_model}
        reject(own, "belongs to the proxy", hint)
    said = None
    if replies is not None:
        said = read_model(replies, RootModel[dict[str, str]], hint=_REPLIES_HINT).root
    require_one(policy, guard, uncalibrated, where="--policy, --guard, --uncalibrated", hint=_FIRST)
    if uncalibrated:
        reject({"monitor": monitor}, "needs --policy", "calibrate a policy first")
    if guard is not None:
        set_there = {
            "scorer": scorer, "shadow": shadow, "log": log, "monitor": monitor,
            "on_unsupported": on_unsupported,
        }  # fmt: skip
        reject(set_there, "does not go with --guard", "set it in your Guard")
    listening = http.bound_socket(host, port, has_token=token is not None)
    with listening:
        if guard is not None:
            served = own_guard(guard)
        else:
            mode: Any = "shadow" if shadow else "enforce"
            options = GuardOptions(mode=mode, on_unsupported=on_unsupported)
            served = _guard(policy, scorer, options, log, monitor=monitor)
        application = http.create_app(
            served,
            token=token,
            proxy=proxied,
            replies=said,
            limits=http.ServeLimits(**limits.model_dump(exclude=_ELSEWHERE)),
        )
        out.print(_announced(served, host, listening.getsockname()[1]))
        out.file.flush()
        drain, notice = limits.drain_seconds, limits.notice_seconds
        http.serve(application, listening, drain_seconds=drain, notice_seconds=notice)


def _announced(served: Guard, host: str, port: int) -> str:
    listens = f"[{host}]" if ":" in host else host
    line = f"serving on http://{listens}:{port}"
    if served.policy.state == "true":
        return line
    note = served.policy.note if served.policy.state in ("costs", "generated") else ""
    return f"{line} — {note or 'the policy is not calibrated: nothing is guaranteed'}"


def _guard(
    path: Path | None,
    scorer: str | None,
    options: GuardOptions,
    log: Path | None,
    *,
    monitor: bool,
) -> Guard:
    """Load the guard of a policy, or the default one."""
    observers: list[Any] = [] if log is None else [DecisionLog(log)]
    if path is None:
        return Guard.default(options=options, observers=observers)
    # Before a scorer is loaded, which may take long.
    policy = Policy.load(path)
    if monitor:
        observers.append(DecisionMonitor(policy))
    guard = Guard.load(
        policy,
        scorer=None if scorer is None else load_scorer(scorer),
        options=options.named_after(path),
        observers=observers,
    )
    if guard.metrics is not None:
        guard.metrics.show_policy_file(path)
    return guard


def served_token() -> str | None:
    """Read the token from the environment.

    Raises:
        InputError: it can be guessed.
    """
    token = os.environ.get(_TOKEN, "")
    if not token:
        return None
    if len(token) < _SHORTEST_TOKEN or token != token.strip():
        raise InputError(
            f"needs {_SHORTEST_TOKEN} characters, and no blank at either end",
            where=_TOKEN,
            hint="for example the output of `openssl rand -hex 32`",
        )
    return token
