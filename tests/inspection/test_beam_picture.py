"""The tree of a beam: its layout, and the same content in every renderer."""

import pytest

from harken.errors import UserError
from harken.inspection.figure.tree import Branch, Tree
from harken.inspection.figure.values import table
from harken.inspection.pictures.beam import BeamPicture

NODES = [
    Branch(-1, "le", -0.1, 2),
    Branch(-1, "un", -1.5, 0, "dropped"),
    Branch(0, "chat", -0.4, 2),
    Branch(0, "chien", -2.0, 1),
    Branch(2, "</s>", -0.5, 2, "best"),
    Branch(3, "</s>", -2.1, 1, "finished"),
]
TERMS = [("le chat", {"log P": -0.5, "rank": -0.17}), ("le chien", {"log P": -2.1, "rank": -0.7})]


def test_leaves_have_lines_of_their_own_and_the_best_path_is_the_first() -> None:
    tree = Tree("", "log-probability", NODES)
    assert tree.depths() == [0, 0, 1, 1, 2, 2]
    assert tree.lanes() == [0.0, 2.0, 0.0, 1.0, 0.0, 1.0]
    assert [path for path, _ in tree.paths()] == ["un", "le chat </s>", "le chien </s>"]
    assert table(tree)[1][1] == ["le chat </s>", "-0.500", "best"]


def test_every_renderer_shows_all_nodes_and_terms() -> None:
    picture = BeamPicture("the cat", NODES, TERMS, "because of its log-probability")
    lines = picture.to_terminal(width=60, color=False).splitlines()
    assert lines[1:4] == ["le ┬ chat </s>  ★ -0.50 best", "   └ chien </s>  -2.10 finished", "un  -1.50 dropped"]
    assert lines[-1] == "because of its log-probability"
    assert "le chien" in lines[-2]
    for text in (picture.to_svg(), picture.to_html()):
        for word in ("chat", "chien", "un", "dropped", "because of its"):
            assert word in text
    assert picture.to_png()[:4] == b"\x89PNG"


def test_words_that_look_like_tags_stay_words() -> None:
    page = BeamPicture("<b>", [Branch(-1, "<i>", -1.0, 2, "best")], [("<i>", {"rank": -1.0})], "<u>").to_html()
    assert "<i>" not in page.replace('<i class="signed">', "").replace("<i></i>", "").replace(
        "<i class=signed></i>", ""
    )
    assert "<u>" not in page


def test_nothing_found_is_refused() -> None:
    with pytest.raises(UserError, match="found nothing"):
        BeamPicture("a", [], [], "")
