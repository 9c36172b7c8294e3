"""The claims of the lab as a worker of the studio runs them."""

from typing import Any

import pytest

from harken.errors import UserError
from harken.lab.registry import experiment_names
from harken.studio.explorations import EXPLORATIONS
from harken.studio.laboratory import list_claims, run_claim


def test_every_claim_is_listed_and_sliders_belong_to_claims() -> None:
    assert [claim["name"] for claim in list_claims()] == experiment_names()
    assert set(EXPLORATIONS) <= set(experiment_names())


def test_refuses_a_claim_that_does_not_exist() -> None:
    with pytest.raises(UserError, match="did you mean 'vanishing'"):
        run_claim("vanihsing", 1, True, lambda event: None)


@pytest.mark.slow
def test_a_quick_run_reports_progress_then_a_verdict_with_a_figure() -> None:
    events: list[dict[str, Any]] = []
    report = run_claim("cell-memory", 1, True, events.append)
    assert report["answer"] in ("holds", "does not hold", "holds in part")
    assert report["figures"][0]["panels"] and len(report["rows"][0]) == len(report["columns"])
    assert events and all(0 <= event["done"] <= 1 for event in events)
