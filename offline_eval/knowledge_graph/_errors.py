"""What can go wrong between knowgate and a SPARQL endpoint.

KnowgateError
└── SparqlError                  the endpoint did not answer as it should
    ├── SparqlTimeoutError       no answer before the deadline
    ├── SparqlStatusError        an HTTP status that says no
    └── SparqlTooLargeError      an answer larger than allowed
"""

from __future__ import annotations

from ...guard import KnowgateError


class SparqlError(KnowgateError):
    """The endpoint did not answer as it should."""


class SparqlTimeoutError(SparqlError):
    """No answer before the deadline."""


class SparqlStatusError(SparqlError):
    """An HTTP status that says no.

    Attributes:
        status_code: as answered.
    """

    def __init__(self, message: str, status_code: int) -> None:
        self.status_code = status_code
        super().__init__(message)


class SparqlTooLargeError(SparqlError):
    """An answer larger than allowed."""
