"""The OpenAPI description against the running server: whatever a client sends, no answer is a server error."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from harken.serving.app import create_app
from harken.serving.settings import ServerSettings

from .conftest import listening

schemathesis: Any = pytest.importorskip("schemathesis")
RECIPES = ("phrasebook-transformer", "opinions-classify", "phrasebook-tag", "phrasebook-language")


@pytest.fixture(scope="module")
def api(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("state")
    app = create_app([tiny_model(recipe) for recipe in RECIPES], ServerSettings(workers=0, state=folder, timeout=300))
    with listening(app) as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


def statuses(operation: Any) -> set[int]:
    """The statuses of answers to generated requests, none of them a server error."""
    seen: set[int] = set()

    @settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        answer = case.call(timeout=300)
        seen.add(answer.status_code)
        hurried = isinstance(case.body, dict) and case.body.get("timeout", 300) < 1  # a 504 is the right answer to it
        assert answer.status_code < 500 or (answer.status_code == 504 and hurried), answer.text
        if answer.status_code >= 400:
            found = answer.json()
            assert len(found) == 1 and isinstance(found.get("error", found.get("message")), str)

    check()
    return seen


@pytest.mark.slow
def test_no_request_is_a_server_error(api: Any) -> None:
    found = {operation.label: statuses(operation) for operation in (result.ok() for result in api.get_all_operations())}
    assert len(found) > 25
    assert 200 in found["POST /v1/translate"] and found["GET /languages"] == {200}
