"""What the tests of the integrations share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import structlog


@pytest.fixture
def caplog_structlog() -> Iterator[list[dict[str, Any]]]:
    """Every structlog line of the test."""
    with structlog.testing.capture_logs() as lines:
        yield lines
