"""The native API with real, barely trained models of every job, all behind one server."""

import io
import json
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import harken
from harken.inspection.measures.ablation import Head
from harken.serving.app import create_app
from harken.serving.dialects import native
from harken.serving.dialects.jobs import routes_of
from harken.serving.settings import ServerSettings
from harken.studio.inside import SwitchedOff, look_inside

TestClient = pytest.importorskip("fastapi.testclient").TestClient
RECIPES = (
    "phrasebook-transformer", "opinions-classify", "gestures-classify", "phrasebook-tag", "phrasebook-language",
    "phrasebook-masked", "seasons-forecast", "tones-transcribe", "stories-answer", "scenes-caption",
    "penfont-handwriting",
)  # fmt: skip
SENTENCE = "the black cat sleeps"


@pytest.fixture(scope="module")
def folders(tiny_model: Callable[[str], Path]) -> dict[str, Path]:
    return {recipe: tiny_model(recipe) for recipe in RECIPES}


@pytest.fixture(scope="module")
def client(folders: dict[str, Path]) -> Iterator[Any]:
    with TestClient(create_app(list(folders.values()), ServerSettings(workers=0, max_texts=8))) as client:
        yield client


@pytest.fixture(scope="module")
def translator(folders: dict[str, Path]) -> Any:
    return harken.load(folders["phrasebook-transformer"])


def results(client: Any, path: str, **body: Any) -> list[Any]:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def test_models_are_listed_with_languages_and_operations(client: Any) -> None:
    found = {model["name"]: model for model in client.get("/v1/models").json()["models"]}
    assert set(found) == set(RECIPES)
    translator = found["phrasebook-transformer"]
    assert (translator["source_language"], translator["target_language"]) == ("en", "fr")
    assert translator["operations"] == ["translate", "attention", "beam", "alternatives", "score"]
    assert translator["attends"] and translator["layers"] == 1 and translator["heads"] == 2
    assert "gates" in found["opinions-classify"]["operations"] and found["opinions-classify"]["recurrent"]


def test_a_translation_is_that_of_the_translator(client: Any, translator: Any) -> None:
    texts = [SENTENCE, "the queen reads a book", "a dog"]
    found = results(client, "translate", text=texts)
    assert [one["hypotheses"][0]["text"] for one in found] == [one.text for one in translator.translate(texts)]
    assert [one["source"] for one in found] == texts


def test_a_request_names_a_model_or_one_of_its_adapters(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    base, pairs = tiny_model("phrasebook-transformer"), tmp_path / "pairs.tsv"
    pairs.write_text(
        "".join(f"the {noun} number {row}\tle {noun} est {row}\n" for noun in ("cat", "dog") for row in range(20))
    )
    short = [
        "train.max_steps=4",
        "train.learning_rate=0.3",
        "train.average=0",
        "train.warmup_steps=0",
        "data.markup=[]",
    ]
    machine = ["train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32"]
    for name in ("first", "second"):
        overrides = [f"adapt.rank={len(name) - 4}", *short, *machine]
        harken.train(pairs, tmp_path / name, start=base, overrides=overrides, progress=False)
    folders = [base, tmp_path / "first", tmp_path / "second"]
    scores = {folder.name: harken.load(folder).score(["the cat"], ["NON cat"])[0].log_probability for folder in folders}
    assert len({*scores.values()}) == 3
    with TestClient(create_app(folders, ServerSettings(workers=0))) as client:
        for name, score in scores.items():
            answer = client.post("/v1/score", json={"model": name, "text": "the cat", "target": "NON cat"}).json()
            assert answer["model"] == name and answer["results"][0]["log_probability"] == pytest.approx(score)
            translated = client.post("/v1/translate", json={"model": name, "text": "the cat"}).json()
            assert translated["model"] == name
        assert client.post("/v1/translate", json={"text": "the cat"}).json()["model"] == base.name


def test_search_options_tokens_and_attention(client: Any, translator: Any) -> None:
    (found,) = results(client, "translate", text=SENTENCE, beam=3, nbest=3, tokens=True, attention=True)
    wanted = translator.nbest([SENTENCE], 3, beam=3)[0]
    assert [one["text"] for one in found["hypotheses"]] == [one.text for one in wanted]
    best = found["hypotheses"][0]
    assert best["score"] == pytest.approx(wanted[0].score, abs=1e-5)
    total = sum(token["log_probability"] for token in best["tokens"]) + (best["end_log_probability"] or 0)
    assert total / (len(best["tokens"]) + best["finished"]) == pytest.approx(best["score"], abs=1e-3)
    np.testing.assert_allclose(best["attention"], wanted[0].attention, atol=1e-3)


def test_attention_heads_can_be_masked(client: Any, translator: Any) -> None:
    heads = [("cross", 0, 0), ("cross", 0, 1), ("decoder", 0, 1)]
    masked = [dict(zip(("kind", "layer", "head"), head, strict=True)) for head in heads]
    texts = ["", SENTENCE, "a dog"]
    found = results(client, "translate", text=texts, masked_heads=masked, attention=True)
    wanted = [look_inside(translator, text, SwitchedOff([Head(*head) for head in heads])) for text in texts[1:]]
    assert [one["hypotheses"][0]["text"] for one in found] == ["", *(one["changed"]["text"] for one in wanted)]
    assert found[1]["hypotheses"][0]["attention"] is not None
    assert results(client, "translate", text=SENTENCE)[0]["hypotheses"][0]["text"] == wanted[0]["text"]
    answer = client.post("/v1/translate", json={"text": "a", "masked_heads": [{**masked[0], "head": 7}]})
    assert answer.status_code == 400 and "no cross attention head 8" in answer.json()["error"]


def test_sampling_depends_on_the_seed_alone(client: Any) -> None:
    texts = [SENTENCE, "a dog", "the queen"]
    one, same, other = (
        results(client, "translate", text=texts, sample=True, seed=seed, temperature=2.0) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_prefix_phrase_and_glossary_are_in_the_translation(client: Any) -> None:
    (found,) = results(client, "translate", text=SENTENCE, prefix="la reine")
    assert found["hypotheses"][0]["text"].startswith("la reine")
    (found,) = results(client, "translate", text=SENTENCE, require=["château"])
    assert "château" in found["hypotheses"][0]["text"]
    (found,) = results(client, "translate", text=SENTENCE, glossary=[["cat", "livre"]])
    assert "livre" in found["hypotheses"][0]["text"].lower()


def test_a_stream_is_the_translation(client: Any, translator: Any) -> None:
    with client.stream("POST", "/v1/translate", json={"text": SENTENCE, "stream": True}) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert answer.headers["content-type"].startswith("text/event-stream")
    parts = [json.loads(line.removeprefix("data: "))["text"] for line in lines if line.startswith("data: ")]
    assert lines[-2] == "event: done" and parts[-1] == "".join(parts[:-1])
    assert parts[-1] == translator.translate(SENTENCE).text


def test_attention_of_a_layer_and_a_head(client: Any, translator: Any) -> None:
    (found,) = results(client, "attention", model="phrasebook-transformer", text=SENTENCE, layer=0, head=1)
    whole = translator.translate(SENTENCE, layers=True)
    np.testing.assert_allclose(found["layers"]["cross"][0][0], whole.layers[0, 1], atol=1e-3)
    assert found["source_pieces"][-1] == "</s>" and found["words"]["source_words"] == SENTENCE.split()
    (found,) = results(client, "attention", text=SENTENCE, target="le chat", kind="encoder")
    assert list(found["layers"]) == ["encoder"] and found["text"] == "le chat"


def test_the_beam_as_a_tree_with_the_terms_of_scores(client: Any, translator: Any) -> None:
    (found,) = results(client, "beam", text=SENTENCE, beam=2)
    assert found["hypotheses"][0]["terms"]["rank"] == pytest.approx(translator.translate(SENTENCE, beam=2).score, 1e-4)
    assert [node["outcome"] for node in found["nodes"]].count("best") == 1
    assert all(node["parent"] < number for number, node in enumerate(found["nodes"]))
    assert found["reason"]


def test_alternatives_go_on_differently_after_the_prefix(client: Any) -> None:
    (found,) = results(client, "alternatives", text=SENTENCE, prefix="le", count=3)
    following = [one["tokens"][1]["piece"] for one in found["alternatives"]]
    assert len(set(following)) == 3 and all(one["text"].startswith("le") for one in found["alternatives"])


def test_scores_of_given_translations(client: Any, translator: Any) -> None:
    (found,) = results(client, "score", model="phrasebook-transformer", text=SENTENCE, target="le chat")
    assert found["log_probability"] == pytest.approx(translator.score([SENTENCE], ["le chat"])[0].log_probability)


def test_jobs_that_read_texts(client: Any, folders: dict[str, Path]) -> None:
    texts = ["the film was good", "a bad film"]
    wanted = harken.load(folders["opinions-classify"])
    found = results(client, "classify", model="opinions-classify", text=texts)
    assert [one["label"] for one in found] == wanted.predict(texts)
    assert list(found[0]["scores"]) == wanted.classes
    (found,) = results(client, "attention", model="opinions-classify", text=texts[0])
    assert found["words"] == texts[0].split() and len(found["weights"]["gradient"]) == 4
    (found,) = results(client, "gates", model="opinions-classify", text=texts[0], units=True)
    assert found["layers"][0]["words"][:4] == texts[0].split()
    (found,) = results(client, "tag", text=SENTENCE, scores=True)
    assert (
        found["words"] == SENTENCE.split()
        and len(found["tags"]) == 4
        and len(found["scores"][0]) == len(found["classes"])
    )
    (found,) = results(client, "fill", text="the black [MASK] sleeps", count=3)
    assert len(found["gaps"][0]) == 3
    (found,) = results(client, "answer", facts=["Anna went to the hall."], question="Where is Anna?")
    assert found["answer"] and len(found["hops"][0]) == 1


def test_signals_are_classified(client: Any, folders: dict[str, Path]) -> None:
    model = harken.load(folders["gestures-classify"])
    signal = np.random.default_rng(0).normal(size=(20, model.channels)).astype(np.float32)
    (found,) = results(client, "classify", model="gestures-classify", signals=[signal.tolist()])
    assert found["label"] == model.predict([signal])[0]
    answer = client.post("/v1/classify", json={"model": "gestures-classify", "signals": [[[1.0], [1.0, 2.0]]]})
    assert answer.status_code == 400 and "same number of channels" in answer.json()["error"]


def test_a_language_model_generates_and_scores(client: Any, folders: dict[str, Path]) -> None:
    model = harken.load(folders["phrasebook-language"])
    body = {"text": "the cat", "length": 8, "seed": 4}
    (found,) = results(client, "generate", **body, count=2)
    assert found["texts"] == model.samples("the cat", 2, length=8, seed=4)
    with client.stream("POST", "/v1/generate", json={**body, "stream": True}) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert json.loads(lines[-1].removeprefix("data: "))["text"] == model.generate("the cat", length=8, seed=4)
    (found,) = results(client, "score", model="phrasebook-language", text="the cat sleeps")
    assert found["perplexity"] == pytest.approx(model.score("the cat sleeps").perplexity, rel=1e-4)


def test_series_strokes_sounds_and_images(client: Any, folders: dict[str, Path]) -> None:
    (found,) = results(client, "forecast", steps=3, at="test")
    assert len(found["series"]) == 2 and len(found["series"][0]["forecast"]) == 3
    (found,) = results(client, "write", text="ab", seed=2)
    assert found == harken.load(folders["penfont-handwriting"]).write("ab", seed=2).to_json()
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((3000 * np.sin(np.arange(8000) / 5)).astype(np.int16).tobytes())
    files = {"file": ("tone.wav", sound.getvalue())}
    answer = client.post("/v1/transcribe", files=files, data={"posteriors": "true"})
    assert answer.status_code == 200, answer.text
    found = answer.json()["results"][0]
    assert found["file"] == "tone.wav" and len(found["posteriors"]["values"][0]) == len(found["posteriors"]["names"])
    answer = client.post("/v1/transcribe", files={"file": ("bad.wav", b"no sound")})
    assert answer.status_code == 400 and "/tmp" not in answer.json()["error"]
    image = pytest.importorskip("PIL.Image").fromarray(np.zeros((32, 32, 3), np.uint8))
    png = io.BytesIO()
    image.save(png, "PNG")
    answer = client.post("/v1/caption", files={"file": ("a.png", png.getvalue())})
    assert answer.status_code == 200 and answer.json()["results"][0]["note"] == ""


def test_predict_serves_any_job(client: Any, folders: dict[str, Path]) -> None:
    for path, body in (
        ("translate", {"model": "phrasebook-transformer", "text": "the cat", "beam": 2}),
        ("classify", {"model": "opinions-classify", "text": ["the film was good", "bad"], "top": 2}),
        ("tag", {"model": "phrasebook-tag", "text": "the cat sleeps", "scores": True}),
        ("answer", {"model": "stories-answer", "facts": ["Anna went home."], "question": "Where is Anna?"}),
        ("forecast", {"model": "seasons-forecast", "steps": 2}),
    ):
        expected = results(client, path, **body)
        assert results(client, "predict", **body) == expected and expected
    assert "hypotheses" in results(client, "predict", text="the cat")[0]  # the first model
    image = pytest.importorskip("PIL.Image").fromarray(np.zeros((32, 32, 3), np.uint8))
    png = io.BytesIO()
    image.save(png, "PNG")
    answer = client.post("/v1/predict", files={"file": ("a.png", png.getvalue())}, data={"model": "scenes-caption"})
    assert answer.status_code == 200 and answer.json()["results"][0]["image"] == "a.png"
    for body, status, said in (
        ({"model": "none", "text": "a"}, 400, "there is no model called 'none'"),
        ({"model": "phrasebook-tag", "txt": "a"}, 422, "txt"),
        ({"model": "scenes-caption"}, 400, "send one as the field file"),
        ({"model": "opinions-classify"}, 400, "give either text or signals"),
    ):
        answer = client.post("/v1/predict", json=body)
        assert answer.status_code == status and said in answer.json()["error"], answer.text


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("translate", {"text": "a", "beem": 3}, 422, "beem: there is no such field; did you mean beam?"),
        ("translate", {"texts": ["a"]}, 422, "texts: there is no such field; did you mean text?"),
        ("classify", {"texts": ["a"]}, 422, "texts: there is no such field; did you mean text?"),
        ("predict", {"model": "opinions-classify", "sentence": "a"}, 422, "sentence: there is no such field; /docs"),
        ("predict", {"model": ["opinions-classify"], "text": "a"}, 400, "model is not a string"),
        ("classify", {"text": ["a"] * 9}, 413, "send at most 8"),
        ("translate", {"text": "a", "beam": 1000}, 422, "beam"),
        ("translate", {"text": "a", "model": "none"}, 400, "there is no model called 'none'"),
        ("translate", {"text": "a", "model": "opinions-classify"}, 400, "is of the task 'classify'"),
        ("translate", {"text": "a", "source": "de"}, 400, "no model translates from de to any; served: en to fr"),
        ("translate", {"text": "a", "temperature": 0.5}, 400, "is for sampling"),
        ("translate", {"text": ["a"] * 9}, 413, "9 texts are too many"),
        ("translate", {"text": "a" * 60_000}, 413, "60,000 characters are too many"),
        ("translate", {"text": ["a", "b"], "stream": True}, 400, "a stream has one text"),
        ("attention", {"text": "a", "layer": 7}, 400, "there is no layer 7"),
        ("gates", {"text": "a", "model": "phrasebook-transformer"}, 400, "no recurrent layer"),
        ("gates", {"text": "/etc/hostname", "model": "gestures-classify"}, 400, "this model reads signals"),
        ("attention", {"text": "/etc/hostname", "model": "gestures-classify"}, 400, "this model reads signals"),
        ("generate", {"text": "a", "length": 2000, "count": 64}, 400, "at most 20,000"),
    ],
)
def test_errors_are_one_sentence(client: Any, path: str, body: dict[str, Any], status: int, said: str) -> None:
    answer = client.post(f"/v1/{path}", json=body)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert said in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("beam", "a b " * 20_000, "80,000 characters are too many; send at most 50,000 at a time"),
        ("translate", ["a b"] * 9, "9 texts are too many; send at most 8 at a time"),
    ],
)
def test_the_size_of_texts_is_checked_before_terms_are_looked_up(
    client: Any, monkeypatch: pytest.MonkeyPatch, path: str, text: Any, message: str
) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr(native.TermIndex, "terms_in", lambda index, text: looked_up.append(text) or [])
    answer = client.post(f"/v1/{path}", json={"text": text, "glossary": [["a b", "c"]]})
    assert (answer.status_code, answer.json(), looked_up) == (413, {"error": message}, [])


def test_one_bad_text_does_not_fail_the_requests_it_was_batched_with(client: Any) -> None:
    import threading

    answers: dict[str, int] = {}

    def send(name: str, **body: Any) -> None:
        answers[name] = client.post("/v1/translate", json=body).status_code

    threads = [
        threading.Thread(target=send, args=(str(number),), kwargs={"text": SENTENCE, **more})
        for number, more in enumerate([{}, {"glossary": [["cat", "@@@"]]}, {}, {"glossary": [["dog", "chien"]]}])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {"0": 200, "1": 400, "2": 200, "3": 200}


def test_pages_of_the_server(client: Any) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    page = client.get("/docs").text
    assert "/v1/translate" in page and "http" not in page.replace("HTTP", "")
    metrics = client.get("/metrics").text
    assert 'harken_requests_total{path="/v1/translate",status="200"}' in metrics and "harken_batches_total" in metrics
    types = {line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE")}
    assert {line.split()[2] for line in metrics.splitlines() if line.startswith("# HELP")} == types
    assert {"harken_request_seconds", "harken_batch_texts", "harken_queue_tokens", "harken_resident_bytes"} <= types
    assert client.get("/nowhere").json() == {"error": "Not Found"}


def test_a_misspelt_field_of_any_job_gets_the_name_of_the_field() -> None:
    for route in routes_of(()).values():
        for name in route.body.model_fields:
            with pytest.raises(ValidationError, match=rf"{name}s: there is no such field; did you mean \w+\?"):
                route.body.model_validate({f"{name}s": ["a"]})
