"""The pytest fixture of `reliable_llm.testing`. Imports nothing of the package until a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reliable_llm.testing import Drill


@pytest.fixture
def reliable_llm_drill() -> Iterator[Drill]:
    """Simulated vendors in virtual time. A response that the test leaves open fails it."""
    from reliable_llm.testing import Drill

    drill = Drill()
    yield drill
    drill.assert_all_closed()
