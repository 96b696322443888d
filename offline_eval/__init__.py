"""The offline path: measures a system and its guard before deployment.

Needs the extra `eval`.
"""

from ..guard.errors import require_extra

require_extra("eval")
