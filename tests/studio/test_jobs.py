"""The answer of a model of every job, as the page shows it."""

import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.errors import UserError
from harken.studio.jobs import answer, describe_input
from harken.studio.library import Library


@pytest.fixture
def opened(tiny_model: Callable[[str], Path]) -> Callable[[str], Any]:
    def open_(recipe: str) -> Any:
        return Library({recipe: tiny_model(recipe)}, device="cpu").open(recipe)

    return open_


def panels(found: dict[str, Any]) -> list[str]:
    return [panel["kind"] for figure in found["figures"] for panel in figure["panels"]]


def test_a_tagger_gives_a_tag_and_its_probability_for_every_word(opened: Callable[[str], Any]) -> None:
    model = opened("phrasebook-tag")
    found = answer(model, "the black cat sleeps")
    tagged = model.model.tag("the black cat sleeps")
    assert [(row["word"], row["name"]) for row in found["rows"]] == list(zip(tagged.words, tagged.tags, strict=True))
    assert [row["value"] for row in found["rows"]] == pytest.approx(tagged.probabilities, abs=1e-4)


def test_a_language_model_continues_and_shows_surprisal(opened: Callable[[str], Any]) -> None:
    model = opened("phrasebook-language")
    found = answer(model, "the black cat", length=5, seed=3, temperature=1.0)
    assert found["text"] == model.model.generate("the black cat", length=5, seed=3)
    (tokens,) = (panel for figure in found["figures"] for panel in figure["panels"])
    assert tokens["kind"] == "tokens" and len(tokens["tokens"]) == len(tokens["values"])


def test_a_forecast_is_a_fan_over_the_past_of_a_series(opened: Callable[[str], Any]) -> None:
    model = opened("seasons-forecast")
    takes = describe_input(model)
    assert takes["choices"] == [one.name for one in model.model.ends.series] and ".csv" in takes["file"]
    found = answer(model, takes["example"])
    assert panels(found)[0] == "lines" and found["figures"][0]["panels"][0]["bands"]


def test_a_recording_is_uploaded_and_named_as_its_file(opened: Callable[[str], Any]) -> None:
    model = opened("tones-transcribe")
    rate = model.model.recipe.features.rate
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((8000 * np.sin(np.arange(rate) / 20)).astype(np.int16).tobytes())
    found = answer(model, file=("my voice.wav", sound.getvalue()))
    assert panels(found) == ["raster", "raster"] and found["title"].startswith("my voice.wav: ")
    with pytest.raises(UserError, match=r"^my voice\.wav is no recording that can be read"):
        answer(model, file=("my voice.wav", b"nothing"))


def test_a_caption_has_a_map_for_each_word(opened: Callable[[str], Any]) -> None:
    image_module = pytest.importorskip("PIL.Image")
    model, content = opened("scenes-caption"), io.BytesIO()
    image_module.fromarray(np.full((32, 32, 3), 90, np.uint8)).save(content, "PNG")
    (panel,) = (
        one for figure in answer(model, file=("a.png", content.getvalue()))["figures"] for one in figure["panels"]
    )
    assert panel["kind"] == "images" and len(panel["weights"]) == len(panel["words"])
    assert np.array(panel["pixels"]).shape == (32, 32, 3)


def test_handwriting_is_places_of_the_pen(opened: Callable[[str], Any]) -> None:
    model = opened("penfont-handwriting")
    found = answer(model, "ab", seed=2, bias=1.0)
    made = model.model.write("ab", bias=1.0, seed=2)
    assert np.array(found["points"])[:, :2] == pytest.approx(np.cumsum(made.points[:, :2], 0), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    ("recipe", "text", "maps"),
    [
        ("stories-answer", "Anna went to the hall. Where is Anna?", 1),
        ("phrasebook-masked", "the black [MASK] sleeps", 3),  # the tokens that fit, and a map of each layer
    ],
)
def test_other_texts_have_the_picture_of_their_job(
    opened: Callable[[str], Any], recipe: str, text: str, maps: int
) -> None:
    assert panels(answer(opened(recipe), text)) == ["heat"] * maps


def test_the_form_has_the_options_of_the_job(opened: Callable[[str], Any]) -> None:
    takes = describe_input(opened("phrasebook-language"))
    assert (takes["verb"], takes["label"], takes["file"], takes["takes_text"]) == ("generate", "Beginning", [], True)
    assert (
        takes["options"]["temperature"]["x-slider"] == [0, 1.5, 0.05] and takes["options"]["length"]["default"] == 200
    )
    assert "surprisal" not in takes["options"]
    assert describe_input(opened("opinions-classify"))["file"] == []
    assert ".npz" in describe_input(opened("gestures-classify"))["file"]
    with pytest.raises(UserError, match="temperature: Input should be less than or equal to 100"):
        answer(opened("phrasebook-language"), "a", temperature=200)
    with pytest.raises(UserError, match="temprature: Extra inputs"):
        answer(opened("phrasebook-language"), "a", temprature=1)


def test_a_classifier_gives_rows_and_what_it_attends_to(opened: Callable[[str], Any]) -> None:
    model = opened("opinions-classify")
    found = answer(model, "the film was not good")
    shares = model.model.predict_proba(["the film was not good"])[0]
    assert found["rows"][0] == {
        "name": model.model.classes[int(shares.argmax())],
        "value": pytest.approx(shares.max(), 1e-4),
    }
    assert found["figures"]


def test_refuses_an_empty_text_and_a_file_it_cannot_read(opened: Callable[[str], Any]) -> None:
    with pytest.raises(UserError, match="the input is empty"):
        answer(opened("phrasebook-tag"), " ")
    with pytest.raises(UserError, match=r"a model of the task 'tag' cannot read 'a\.csv'; it reads texts"):
        answer(opened("phrasebook-tag"), file=("a.csv", b""))
