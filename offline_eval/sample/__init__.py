"""The sample knowledge base: the city services of an invented city, with questions.

No language model can have read about the city, so a right answer to one of the questions has to
come from a passage, and leaving an article out makes its questions unanswerable.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["sample_knowledge_base_path"]


def sample_knowledge_base_path() -> Path:
    """Return the path of the bundled JSON Lines file, one question a line, in UTF-8.

    Each line is an object of five non-empty strings: `id`, `question`, `answer`, `passage` (the
    article that answers the question) and `source` (the article's title). An article with several
    questions repeats its text verbatim on each of their lines.

    Example:
        >>> sample_knowledge_base_path().name
        'city_services.jsonl'
    """
    return Path(__file__).with_name("city_services.jsonl")
