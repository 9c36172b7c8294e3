"""The beam as data."""

from typing import Any

import pytest

from harken.studio.searching import beam_of


def test_the_best_path_is_the_translation_and_terms_make_the_rank(transformer: Any) -> None:
    found = beam_of(transformer, "the black cat sleeps", beam=4, length_penalty=0.6)
    nodes = found["nodes"]
    assert [one["text"] for one in found["hypotheses"][:1]] == [
        transformer.translate("the black cat sleeps", beam=4, length_penalty=0.6, attention=False).text
    ]
    assert len(found["hypotheses"]) == 4 == found["beam"]
    for one in found["hypotheses"]:
        rank = (one["log_probability"] + one["rules"]) / one["divisor"] + one["reward"] + one["coverage"]
        assert one["rank"] == pytest.approx(rank, abs=1e-5)
    for node in nodes:
        parent = nodes[node["parent"]] if node["parent"] >= 0 else {"step": 0, "total": 0.0}
        assert node["step"] == parent["step"] + 1
        assert node["total"] == pytest.approx(parent["total"] + node["log_probability"], abs=2e-3)
    assert [node["outcome"] for node in nodes].count("best") == 1
