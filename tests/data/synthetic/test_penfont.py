"""The pen font: letters where they belong, hands that write them, and splits that share no text."""

from collections import Counter

import numpy as np
import pytest

from harken.data.strokes.drawing import Drawing
from harken.data.synthetic.penfont import DIGITS, GLYPHS, LETTERS, LONGEST, Hand, penfont
from harken.errors import UserError

NEAT = Hand(size=1.0, slant=0.0, gap=3.0, step=1.0, tremble=0.0, wander=0.0, joins=0.0)


class NoNoise(np.random.Generator):
    """Every normal deviate is 0."""

    def normal(self, loc=0.0, scale=1.0, size=None):  # type: ignore[no-untyped-def, override]
        return np.zeros(size) + loc if size is not None else loc


def neat(text: str, hand: Hand = NEAT) -> Drawing:
    return hand.write(text, NoNoise(np.random.PCG64(1)))


def test_every_letter_lies_where_the_font_says() -> None:
    assert set(GLYPHS) == set(LETTERS + DIGITS)
    for character, glyph in GLYPHS.items():
        strokes = neat(character).strokes()
        assert len(strokes) == len(glyph.strokes)
        for stroke, shape in zip(strokes, glyph.strokes, strict=True):
            np.testing.assert_allclose(stroke[0] * [1, -1], shape.points[0], atol=1e-5)
            np.testing.assert_allclose(stroke[-1] * [1, -1], shape.points[-1], atol=1e-4)
            lengths = np.hypot(*np.diff(stroke, axis=0).T)
            assert lengths.max() < 1.6 and (-stroke[:, 1]).min() > -8.6


def test_corners_are_kept() -> None:
    (stroke,) = neat("v").strokes()
    assert np.abs(stroke * [1, -1] - [3.8, 0.0]).sum(1).min() < 1e-5


def test_joins_leave_the_pen_on_the_paper() -> None:
    joined = Hand(**{**NEAT.__dict__, "joins": 1.0})
    assert len(neat("on").strokes()) == 2 and len(neat("on", joined).strokes()) == 1
    assert len(neat("o n", joined).strokes()) == 2  # never across a space
    assert len(neat("no", joined).strokes()) == 2  # never far
    assert len(neat("on", joined)) > len(neat("on"))


def test_slant_and_size() -> None:
    leaning = Hand(**{**NEAT.__dict__, "slant": 0.5, "size": 2.0})
    (upright,), (slanted,) = neat("l").strokes(), neat("l", leaning).strokes()
    assert slanted[0] == pytest.approx(2 * (upright[0] - [0.5 * upright[0, 1], 0]))


def test_the_font_cannot_write_everything() -> None:
    with pytest.raises(UserError, match=r"the text 'Hé' has 'H'; the font of strokes has a to z, 0 to 9 and the space"):
        neat("Hé")
    with pytest.raises(UserError, match="nothing to write"):
        neat("  ")


def test_penfont_is_deterministic_and_its_splits_share_no_text() -> None:
    one, other = penfont(60, seed=5, held_out=20), penfont(80, seed=5, held_out=20)
    for name in ("valid", "test"):
        assert [line.text for line in one[name]] == [line.text for line in other[name]]
    assert all(np.array_equal(a.points, b.points) for a, b in zip(one["train"], other["train"][:60], strict=True))
    texts = {name: {line.text for line in lines} for name, lines in one.items()}
    assert not (texts["train"] & texts["valid"] or texts["train"] & texts["test"] or texts["valid"] & texts["test"])
    assert [line.text for line in penfont(5, seed=6, held_out=5)["train"]] != [x.text for x in one["train"][:5]]
    counts = Counter("".join(line.text or "" for line in other["train"]))
    assert set(counts) == set(LETTERS + DIGITS + " ")
    assert max(len(line.text or "") for line in other["train"]) <= LONGEST
