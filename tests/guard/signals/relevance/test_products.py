"""Best products: as one large product would have them, whatever the cut."""

from __future__ import annotations

import numpy as np
import pytest

from knowgate.guard.signals.relevance.late_interaction import best_products


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 700), (15, 160), (120, 254), (600, 5)])
def test_best_products_equal_those_of_one_large_product(n: int, m: int) -> None:
    generator = np.random.default_rng(n)
    asked = generator.normal(size=(n, 384)).astype(np.float32)
    told = generator.normal(size=(m, 384)).astype(np.float32)

    found = best_products(asked, told)

    assert found.shape == (n,)
    np.testing.assert_allclose(found, (asked @ told.T).max(axis=1), rtol=1e-4, atol=1e-4)


def test_no_question_token_gives_no_product() -> None:
    found = best_products(np.zeros((0, 384), dtype=np.float32), np.ones((2, 384), dtype=np.float32))

    assert found.shape == (0,)
