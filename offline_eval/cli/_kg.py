"""`knowgate kg …`: from a knowledge graph to questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, get_args

import typer

from ...guard.errors import InputError
from ...guard.files import write_json
from ..data.graph import (
    EndpointSettings,
    FetchLimits,
    Functional,
    GeneratedSet,
    GenerationSettings,
    KnowledgeGraph,
    PropertyProfile,
    PropertyRules,
    Templates,
    check_folder,
    generate_questions,
    graph_properties,
    load_endpoint,
    load_graph,
)
from ..data.uaqfact import QuestionType
from ._app import app
from ._console import out, progress_bar

kg_app = typer.Typer(
    no_args_is_help=True, help="From a knowledge graph to questions for `knowgate eval uaqfact`."
)
app.add_typer(kg_app, name="kg")

_ENDPOINT = re.compile(r"https?://", re.IGNORECASE)
_DEFAULT_AGENT = EndpointSettings().user_agent


@kg_app.callback()
def _group() -> None:
    pass


@kg_app.command()
def generate(
    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH",
            help="An RDF file (.nt .nq .ttl .trig .n3 .rdf .jsonld, also with .gz), a folder in "
            "which pyoxigraph keeps a store, the address of a SPARQL endpoint, or microworld.",
        ),
    ],
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="New folder for the questions.")
    ] = None,
    lang: Annotated[
        str, typer.Option(help="Languages, with commas between them; each question in all.")
    ] = "en",
    label_fallback: Annotated[
        str, typer.Option(help="Languages whose labels stand in for missing ones, in order.")
    ] = "",
    types: Annotated[
        str, typer.Option(help="Of inter, time, dilemma, with commas between them.")
    ] = "inter,time,dilemma",
    per_type: Annotated[
        int, typer.Option(min=1, help="Unanswerable questions per type; as many answerable ones.")
    ] = 200,
    examples: Annotated[
        int, typer.Option(min=4, help="Few-shot examples per type, half of them unanswerable.")
    ] = 8,
    templates: Annotated[
        list[Path] | None,
        typer.Option(help="TOML file with wordings of your own. Repeatable; the last one wins."),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Only these properties, by IRI or its last part. Repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Never these properties, likewise. Repeatable.")
    ] = None,
    min_facts: Annotated[int, typer.Option(min=1, help="Fewest facts of a property.")] = 5,
    max_values: Annotated[int, typer.Option(min=1, help="Most answers of one question.")] = 5,
    functional: Annotated[
        str, typer.Option(help="Properties with one value a subject: any, only, never.")
    ] = "any",
    local_names: Annotated[
        bool,
        typer.Option("--local-names", help="Name properties without a label after their IRI."),
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
    user_agent: Annotated[
        str, typer.Option(help="Endpoint: who asks; put an address to reach you in it.")
    ] = _DEFAULT_AGENT,
    pause: Annotated[float, typer.Option(help="Endpoint: seconds between two requests.")] = 0.5,
    timeout: Annotated[float, typer.Option(help="Endpoint: seconds for one request.")] = 65.0,
    deadline: Annotated[float, typer.Option(help="Endpoint: seconds for all requests.")] = 1800.0,
    max_facts: Annotated[
        int, typer.Option(min=1, help="Endpoint: most facts fetched of each property.")
    ] = 20_000,
    subjects: Annotated[
        str, typer.Option(help="Endpoint: SPARQL pattern; facts of these ?s only.")
    ] = "",
    page_size: Annotated[int, typer.Option(min=1, help="Endpoint: rows per request.")] = 5000,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the properties and why some are left out.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="With --dry-run: the properties as JSON.")
    ] = None,
) -> None:
    """Unanswerable questions, their answerable twins, and the facts behind them.

    Intersections that are empty, times in which nothing holds, and choices between two
    wrong options, each checked against the graph, in the layout that `knowgate eval
    uaqfact` reads.

    Example: `knowgate kg generate graph.ttl --lang en,zh --out questions`
    """
    settings = GenerationSettings(
        languages=tuple(_parts(lang)),
        types=_types(types),
        per_type=per_type,
        examples=examples,
        rules=PropertyRules(
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            min_facts=min_facts,
            max_values=max_values,
            functional=_functional(functional),
            local_names=local_names,
        ),
        seed=seed,
    )
    texts = Templates(templates or ())
    for language in settings.languages:
        texts.require(language)
    if json_file is not None and not dry_run:
        raise InputError("is for --dry-run", where="--json", hint="add --dry-run or leave it out")
    if not dry_run:
        if out_dir is None:
            raise InputError("is missing", where="--out", hint="name a new folder, or --dry-run")
        check_folder(out_dir)
    endpoint = EndpointSettings(
        user_agent=user_agent,
        pause=pause,
        timeout=timeout,
        deadline=deadline,
        page_size=page_size,
    )
    limits = FetchLimits(facts=max_facts, subjects=subjects)
    loaded = _loaded(graph, settings, _parts(label_fallback), endpoint, limits)
    if dry_run:
        _show_properties(graph_properties(loaded, settings, texts), loaded, json_file)
        return
    with progress_bar("making questions") as advance:
        made = generate_questions(loaded, settings, templates=texts, on_progress=advance)
    if not made.data.items:
        raise InputError(
            "the graph gives no questions",
            where=loaded.source,
            hint="--dry-run says what was left out",
        )
    assert out_dir is not None
    made.write(out_dir, graph=loaded, settings=settings, templates=texts)
    _show_counts(made, out_dir)


def _loaded(
    graph: str,
    settings: GenerationSettings,
    fallback: Sequence[str],
    endpoint: EndpointSettings,
    limits: FetchLimits,
) -> KnowledgeGraph:
    if not _ENDPOINT.match(graph):
        with progress_bar("reading triples") as advance:
            return load_graph(
                graph,
                languages=settings.languages,
                fallback=fallback,
                on_progress=lambda number: advance(number, number),
            )
    with progress_bar("fetching triples") as advance:
        return load_endpoint(
            graph,
            languages=settings.languages,
            fallback=fallback,
            properties=settings.rules.include,
            limits=limits,
            settings=endpoint,
            on_progress=lambda number: advance(number, number),
        )


def _show_properties(
    profiles: Sequence[PropertyProfile], graph: KnowledgeGraph, json_file: Path | None
) -> None:
    for title, usable in (("used", True), ("left out", False)):
        chosen = [profile for profile in profiles if profile.usable is usable]
        if chosen:
            lines = [title, *(f"  {_line(profile)}" for profile in chosen)]
            out.print("\n".join(lines), markup=False)
    used = sum(profile.usable for profile in profiles)
    out.print(f"{graph.triples:,} triples; {used} of {len(profiles)} properties are used")
    if json_file is not None:
        write_json(json_file, {"properties": [_row(profile) for profile in profiles]})


def _row(profile: PropertyProfile) -> dict[str, object]:
    return {
        "iri": profile.iri,
        "labels": dict(profile.labels),
        "values": profile.kind.name.lower(),
        "facts": profile.facts,
        "subjects": profile.subjects,
        "values_per_subject": profile.values_per_subject,
        "functional": profile.functional,
        "dated": profile.dated,
        "used": profile.usable,
        "left_out": profile.left_out or None,
    }


def _line(profile: PropertyProfile) -> str:
    labels = " · ".join(dict.fromkeys(label for label in profile.labels.values() if label))
    parts = [
        f"{profile.facts:,} facts",
        f"{profile.values_per_subject:.2f} a subject",
        f"values: {profile.kind.name.lower()}",
    ]
    if profile.dated:
        parts.append(f"{profile.dated:,} dated")
    named = f"{profile.iri} ({labels})" if labels else profile.iri
    return f"{named}: {profile.left_out or ', '.join(parts)}"


def _show_counts(made: GeneratedSet, folder: Path) -> None:
    counts = made.counts()
    for language, by_type in counts.get("task1", {}).items():
        parts = [
            f"{name} {kinds.get('ua', 0)} + {kinds.get('ab', 0)}" for name, kinds in by_type.items()
        ]
        total = sum(sum(kinds.values()) for kinds in by_type.values())
        facts = sum(counts.get("task2", {}).get(language, {}).values())
        out.print(
            f"{language}: {total:,} questions (unanswerable + answerable: {', '.join(parts)}), "
            f"{facts:,} on the facts, {counts['examples'][language]} examples",
            markup=False,
        )
    for sentence in made.shortfalls:
        out.print(f"note: {sentence}", markup=False)
    out.print(
        f"questions → {folder}\nnext: knowgate eval uaqfact --data {quote(str(folder))} --out run",
        markup=False,
    )


def _types(text: str) -> tuple[QuestionType, ...]:
    known = {kind.value: kind for kind in QuestionType}
    chosen = _parts(text)
    strangers = [name for name in chosen if name not in known]
    if strangers:
        raise InputError(
            f"there is no type {strangers[0]!r}", where="--types", hint=", ".join(known)
        )
    return tuple(kind for name, kind in known.items() if name in chosen)


def _functional(text: str) -> Functional:
    for known in get_args(Functional):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise InputError("must be any, only or never", where="--functional")


def _parts(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
