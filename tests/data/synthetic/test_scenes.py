"""Scenes that harken draws: shapes that cover what they should, captions that are true, splits that share nothing."""

import numpy as np
import pytest

from harken.data.synthetic.scenes.scene import (
    COLOURS,
    SHAPES,
    Thing,
    captions_of,
    coverage,
    draw_things,
    picture_of,
    relation,
)
from harken.data.synthetic.scenes.splits import load_scenes
from harken.errors import UserError

AREAS = {  # of a shape in a circle of radius 1
    "circle": np.pi,
    "square": 2.0,
    "triangle": 3 * np.sqrt(3) / 4,
    "star": 10 * 0.5 * 0.42 * np.sin(np.pi / 5),
    "cross": 4 * 0.36 * (2 * 0.95 - 0.36),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_a_shape_covers_its_area_however_it_is_turned(shape: str, angle: float) -> None:
    covered = coverage(shape, (31.3, 33.1), radius=25.0, angle=angle, size=64)
    assert covered.sum() == pytest.approx(AREAS[shape] * 25**2, rel=0.01)
    assert covered.min() == 0.0 and covered.max() == 1.0


def test_a_shape_at_the_edge_is_cut_off() -> None:
    assert coverage("circle", (0.0, 32.0), 10.0, 0.0, 64).sum() == pytest.approx(np.pi * 100 / 2, rel=0.02)


@pytest.mark.parametrize(
    ("place", "said"), [((5, 30), "left of"), ((60, 32), "right of"), ((31, 4), "above"), ((33, 60), "below")]
)
def test_relations_are_seen_from_the_second_thing(place: tuple[int, int], said: str) -> None:
    first = Thing("small", "red", "circle", *place, 6, 0.0)
    assert relation(first, Thing("small", "blue", "circle", 32, 32, 6, 0.0)) == said


def test_a_slant_has_no_relation() -> None:
    assert relation(Thing("small", "red", "star", 10, 10, 6, 0), Thing("small", "red", "star", 30, 29, 6, 0)) is None


def test_what_stands_in_a_box_has_the_colour_that_is_said() -> None:
    for seed in range(30):
        random = np.random.default_rng(seed)
        things = draw_things(random, 3, 64)
        example = picture_of(things, random, 64)
        assert len(set(example.references)) == 6
        for thing, region in zip(things, example.regions, strict=True):
            pixel = example.image[int(thing.y), int(thing.x)].astype(int)
            nearest = min(COLOURS, key=lambda name: np.abs(pixel - COLOURS[name]).sum())
            assert nearest == thing.colour and thing.phrase == region.phrase
            assert all(region.phrase in caption for caption in example.references)
            left, top, right, bottom = (64 * side for side in region.box)
            assert left < thing.x < right and top < thing.y < bottom
            assert 1.35 * thing.radius < right - left < 2.2 * thing.radius  # tight
            assert right - left >= 8 and bottom - top >= 8  # so an 8 x 8 grid has a centre in every box


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    first, again, other = (load_scenes(seed, 20, 5, 5, size=32) for seed in (3, 3, 4))
    assert all((a.image == b.image).all() for a, b in zip(first.train, again.train, strict=True))
    assert [a.captions for a in first.train] != [b.captions for b in other.train]
    longer = load_scenes(3, 30, 5, 5, size=32)
    assert longer.tests["test"][0].captions == first.tests["test"][0].captions


def test_no_combination_of_the_test_is_in_training() -> None:
    corpus = load_scenes(1, 600, 100, 100, size=32)
    splits = [corpus.train, corpus.valid, corpus.tests["test"]]
    kinds = [
        {frozenset(region.phrase for region in one.regions) for one in split if len(one.regions) > 1}
        for split in splits
    ]
    assert min(map(len, kinds)) > 50
    assert not kinds[0] & kinds[1] and not kinds[0] & kinds[2] and not kinds[1] & kinds[2]
    pictures = [one.image.tobytes() for split in splits for one in split]
    assert len(set(pictures)) == 800
    assert {len(one.regions) for one in corpus.train} == {1, 2, 3}
    assert {len(one.captions) for one in corpus.train} == {1}
    assert {len(one.references) for one in corpus.valid} == {1, 2, 6}


def test_the_usual_caption_begins_with_what_is_large_and_goes_from_left_to_right() -> None:
    things = [Thing(size, "red", "star", x, 20, 6, 0.0) for size, x in (("small", 5), ("large", 50), ("large", 20))]
    assert captions_of(things)[0] == ("a large red star left of a large red star and right of a small red star")


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"size": 16}, "at least 32 pixels"), ({"most": 4}, "1 to 3 things"), ({"train": 0}, "0 scenes for train")],
)
def test_impossible_scenes_are_refused(asked: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_scenes(**asked)
