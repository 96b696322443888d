"""The pages of `knowgate view`: runs, cases, and one case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from ..judging.labelling.session import plain
from ._index import PAGE, CaseQuery, Runs, others
from ._pages import citation_values, match_values, new_app, page
from ._records import Record


def view_app(runs: Runs, skipped: Sequence[str] = ()) -> FastAPI:
    """Return the pages of `knowgate view`; arguments are what `index_runs` returns."""
    app = new_app((("/", "Runs"),))

    @app.get("/")
    def overview() -> Response:
        if len(runs) == 1:
            return RedirectResponse("/cases?" + CaseQuery(next(iter(runs))).link(), 303)
        values = {"runs": runs, "skipped": skipped, "link": lambda name: CaseQuery(name).link()}
        return page(app, "runs.html", **values)

    @app.get("/cases")
    def cases(request: Request) -> Response:
        query = _query(runs, request)
        found = runs[query.run].select(query)
        shown = found[(query.page - 1) * PAGE : query.page * PAGE]
        pages = max(1, -(-len(found) // PAGE))
        if query.page > pages:
            return RedirectResponse("/cases?" + query.link(page=pages), 303)
        values = {"run": runs[query.run], "query": query, "total": len(found)}
        return page(app, "cases.html", rows=shown, pages=pages, **values)

    @app.get("/case")
    def case(request: Request) -> Response:
        query = _query(runs, request)
        found, passages = _case(runs, query, request)
        before, after = runs[query.run].neighbours(query, found)
        values = {"query": query, "record": found, "before": before, "after": after}
        more = {"others": others(runs, found), "where": CaseQuery(query.run).link()}
        cited = _is_cited(found, passages)
        return page(app, "case.html", passages=passages, cited=cited, **values, **more)

    @app.get("/matches")
    def matches(request: Request) -> Response:
        found, passages = _case(runs, _query(runs, request), request)
        return JSONResponse(match_values(plain(found.question), _texts(passages)))

    @app.get("/citations")
    def citations(request: Request) -> Response:
        found, passages = _case(runs, _query(runs, request), request)
        if not _is_cited(found, passages):
            raise HTTPException(404, "no reply to passages that the run holds")
        reply, question = plain(found.reply), plain(found.question)
        return JSONResponse(citation_values(reply, _texts(passages), question))

    return app


def _query(runs: Runs, request: Request) -> CaseQuery:
    query = CaseQuery.read(request.query_params)
    if query.run not in runs:
        raise HTTPException(404, "no such run")
    return query


def _case(runs: Runs, query: CaseQuery, request: Request) -> tuple[Record, list[dict[str, Any]]]:
    """Return a case and its passages."""
    run = runs[query.run]
    found = run.by_key.get(request.query_params.get("key", ""))
    if found is None:
        raise HTTPException(404, "no such case")
    return found, run.texts_of(found)


def _texts(passages: list[dict[str, Any]]) -> list[str]:
    """Passages as the page shows them, since places are counted in that."""
    return [plain(one["text"] or "") for one in passages]


def _is_cited(case: Record, passages: list[dict[str, Any]]) -> bool:
    """Whether the reply was given to passages whose texts the run holds."""
    texts = [one["text"] for one in passages]
    return bool(case.reply and texts) and case.context == "passages" and None not in texts
