"""Translators that are opened without torch: the same results, and the network where the stored form does not serve."""

import json
import os
import pwd
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import harken
from harken.cli.warm import warm
from harken.recipe import load_recipe, model_recipe
from harken.search import stored as stored_models
from harken.search.dispatch import report_backends
from harken.search.stored import StoredModel
from harken.tasks.predictor import network_facts
from harken.tasks.translate import cold_start
from harken.tasks.translate.cold_start import open_stored, store, why_not_stored
from harken.tasks.translate.job import JOB
from harken.tasks.translate.translator import Translator
from harken.training.weights import load_tensors, save_tensors

sys.path.insert(0, str(Path(__file__).parent))
from test_translator import ENGLISH, KINDS, write_model

TRANSFORMER = KINDS["transformer"]
FORMS = {
    "transformer": TRANSFORMER,
    "learned": [*TRANSFORMER, "model.positions=learned", "model.max_length=24", "model.norm=post"],
    "rotary": [*TRANSFORMER, "model.positions=rotary", "model.norm_kind=rms", "model.activation=swiglu"],
    "alibi": [*TRANSFORMER, "model.positions=alibi"],
    "buckets": [*TRANSFORMER, "model.positions=buckets", "model.buckets=8"],
    "ssru": [*TRANSFORMER, "model.decoder_mixer=ssru"],
    "attention": KINDS["attention"],
    "rnn": KINDS["rnn"],
    "gru": [*KINDS["attention"], "model.cell=gru", "model.layers=2", "model.bidirectional=true", "model.attention=dot"],
    "gru-before": [*KINDS["attention"], "model.cell=gru", "model.reset=before", "model.attention=cosine"],
    "residual": [*KINDS["attention"], "model.layers=3", "model.connections=residual", "model.attention=multiplicative"],
    "constant": [*KINDS["rnn"], "model.cell=rnn", "model.context=constant"],
}
SEARCHES: list[dict[str, Any]] = [
    {"beam": 1},
    {"beam": 4},
    {"beam": 4, "length_rule": "gnmt", "word_reward": 0.2, "stopping": "count"},
    {"beam": 3, "no_repeat_ngram": 2, "repetition_penalty": 1.3, "min_length": 3, "banned": ["chat"]},
    {"beam": 4, "prefix": "le chat"},
    {"beam": 6, "require": ["chien"]},
    {"beam": 4, "diversity_groups": 2},
    {"sample": True, "seed": 3, "top_k": 10},
    {"beam": 4, "mbr": "chrf", "mbr_candidates": 4},
]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cold_start, "may_have_gpu", lambda: False)
    return tmp_path / "cache" / "harken" / "decoders"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    home = tmp_path_factory.mktemp("models")

    def of(form: str) -> Path:
        if not (home / form).is_dir():
            KINDS[form] = FORMS[form]
            write_model(home / form, form)
        return home / form

    return of


def network_of(folder: Path) -> Translator:
    model: Translator = harken.load(folder, device="cpu")
    model.threads.count = 1
    model.prepare()
    return model


def opened(folder: Path) -> Translator:
    """The folder by its stored description, whose network must not be built."""

    def build() -> Any:
        raise AssertionError("the network was built")

    translator = open_stored(folder, model_recipe(folder), build)
    assert translator is not None
    return translator


def store_facts(model: Translator) -> bool:
    return store(model, network_facts(model) | JOB.facts(model))


def assert_equal_results(one: Translator, other: Translator, **search: Any) -> None:
    first, second = (
        model.nbest(ENGLISH, 2 if search.get("beam", 1) > 1 else 1, attention=False, **search) for model in (one, other)
    )
    assert [[best.text for best in row] for row in first] == [[best.text for best in row] for row in second]
    assert [[best.token_ids for best in row] for row in first] == [[best.token_ids for best in row] for row in second]
    for row, others in zip(first, second, strict=True):
        for best, reference in zip(row, others, strict=True):
            assert best.score == pytest.approx(reference.score, abs=1e-4)
            assert best.token_scores == pytest.approx(reference.token_scores, abs=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_translates_as_its_network(folders: Callable[[str], Path], form: str) -> None:
    network = network_of(folders(form))
    assert store_facts(network)
    stored = opened(folders(form))
    assert_equal_results(network, stored, beam=3)
    assert_equal_results(network, stored, beam=1)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: "-".join(search))
@pytest.mark.parametrize("form", ["transformer", "attention"])
def test_every_search_gives_what_the_network_gives(
    folders: Callable[[str], Path], form: str, search: dict[str, Any]
) -> None:
    network = network_of(folders(form))
    assert store_facts(network)
    assert_equal_results(network, opened(folders(form)), **search)


@pytest.mark.parametrize("form", ["transformer", "attention"])
def test_int8_gives_what_the_network_gives(folders: Callable[[str], Path], form: str) -> None:
    network = network_of(folders(form))
    assert store_facts(network)
    assert_equal_results(network, opened(folders(form)), precision="int8", beam=3)


def test_what_the_stored_form_does_not_serve_is_left_to_the_network(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_models, "LONGEST", 64)
    folder = write_model(tmp_path / "model", "transformer")
    network = network_of(folder)
    assert store_facts(network)
    built, lines = list[Any](), list[str]()

    def build() -> Any:
        built.append(harken.load(folder, device="cpu").model)
        return built[-1]

    stored = open_stored(folder, network.recipe, build)
    assert stored is not None and not built
    report_backends(lines.append)
    stored.translate(ENGLISH[0], attention=False)
    assert lines == ["search by compiled, without torch (graphs: the model is not on a GPU)"]
    long = " ".join(ENGLISH[1].split() * 2)
    assert len(stored.source.encode(long)) < 64
    given = {"max_length_factor": 20.0, "beam": 2, "attention": False}
    best, reference = (model.translate(long, **given) for model in (stored, network))
    report_backends(None)
    assert best.text == reference.text and len(built) == 1
    assert any(line.startswith("the network is built, with torch: a sentence is longer") for line in lines)
    aligned = stored.translate(ENGLISH[0], attention=True)
    torch.testing.assert_close(aligned.attention, network.translate(ENGLISH[0], attention=True).attention)


def test_changed_weights_a_changed_recipe_and_a_damaged_file_make_the_description_stale(
    folders: Callable[[str], Path], tmp_path: Path, cache: Path
) -> None:
    folder = write_model(tmp_path / "model", "transformer")
    recipe = model_recipe(folder)
    assert why_not_stored(folder, recipe) == "no description of its decoder is stored yet"
    assert store_facts(network_of(folder)) and why_not_stored(folder, recipe) is None
    other = load_recipe(folder / "recipe.toml", ["model.alignment_layer=-1", "model.alignment_heads=[0]"])
    assert why_not_stored(folder, other) is not None
    (file,) = cache.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:-8] + bytes(8))
    assert open_stored(folder, recipe, lambda: None) is None
    file.write_bytes(content)
    before = opened(folder).translate(ENGLISH, beam=1, attention=False)
    tensors, _ = load_tensors(folder / "model.safetensors")
    save_tensors(folder / "model.safetensors", {name: value * 0.5 for name, value in tensors.items()})
    assert why_not_stored(folder, recipe) == "no description of its decoder is stored yet"
    changed = network_of(folder)
    assert store_facts(changed)
    assert_equal_results(changed, opened(folder), beam=1)
    after = opened(folder).translate(ENGLISH, beam=1, attention=False)
    assert [best.score for best in after] != [best.score for best in before]


def test_a_damaged_model_file_is_refused(folders: Callable[[str], Path], tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "transformer")
    store_facts(network_of(folder))
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"\x01\x02\x03\x04")
    with pytest.raises(harken.UserError, match="does not match its checksum; train the model again or copy it anew"):
        JOB.open_quickly(folder, model_recipe(folder), "cpu", lambda line: None)


def test_models_without_a_description_are_opened_with_their_network(tmp_path: Path, cache: Path) -> None:
    KINDS["convolutional"] = ["phrasebook-convolutional", "model.width=16", "model.embedding=8"]
    folder = write_model(tmp_path / "model", "convolutional")
    assert not store_facts(network_of(folder)) and not cache.exists()


def test_translate_imports_no_torch_once_the_description_is_stored(folders: Callable[[str], Path], cache: Path) -> None:
    folder, code = (
        folders("attention"),
        "import harken.cli, sys\ntry: harken.cli.main()\nfinally: print('torch' in sys.modules)",
    )

    def translate(*options: str) -> tuple[list[str], str]:
        command = [sys.executable, "-c", code, "translate", str(folder), "--profile", *options]
        done = subprocess.run(
            command, input="the black cat\n", capture_output=True, text=True, env=os.environ, check=True
        )
        return done.stdout.splitlines(), done.stderr

    (first, with_torch), notes = translate()
    assert with_torch == "True" and "no description of its decoder is stored yet" in notes
    (second, without_torch), notes = translate()
    assert (second, without_torch) == (first, "False") and "without torch" in notes
    assert translate("--beam", "3", "--nbest", "2", "--json")[0][-1] == "True"  # the alignment takes the network


def test_a_gpu_takes_the_network(folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_start, "may_have_gpu", lambda: True)
    folder = folders("transformer")
    assert why_not_stored(folder, model_recipe(folder)) == "there may be a GPU"


def test_a_stored_model_is_its_network_to_others(folders: Callable[[str], Path]) -> None:
    network = network_of(folders("transformer"))
    assert store_facts(network)
    translator = open_stored(folders("transformer"), network.recipe, lambda: network.model)
    assert translator is not None and isinstance(translator.model, StoredModel)
    assert translator.align(ENGLISH[0], "le chat").score == pytest.approx(network.align(ENGLISH[0], "le chat").score)
    assert str(translator.device) == "cpu" and translator.is_on_cpu


WORKER = """
import json, sys
from harken.serving.engine.worker import WorkerLoop
sent = []
loop = WorkerLoop(sent.append, "cpu", prepare=True)
operations = json.loads(sys.argv[2])
loop._do_load("m", sys.argv[1])
for number, operation in enumerate(operations):
    loop.put(("batch", number, "m", operation, {}, [{"text": "the black cat"}]))
loop.put(("stop",))
loop.run()
print(json.dumps([sent, "torch" in sys.modules]))
"""


def test_a_worker_serves_translations_without_torch_and_builds_the_network_to_look_inside(
    folders: Callable[[str], Path],
) -> None:
    folder = folders("attention")

    def serve(*operations: str) -> tuple[list[Any], bool]:
        command = [sys.executable, "-c", WORKER, str(folder), json.dumps(operations)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        sent, has_torch = json.loads(done.stdout)
        return sent, has_torch

    first, with_torch = serve("translate")
    second, without_torch = serve("translate")
    assert (with_torch, without_torch) == (True, False)
    assert first == second and first[0][0] == "loaded" and first[-1][0] == "result"
    both, has_torch = serve("translate", "attention")
    assert has_torch and both[-1][0] == "result" and both[-1][2][0]["layers"]


def test_warm_compiles_the_kernels_and_stores_the_description(
    folders: Callable[[str], Path], cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folders("transformer")
    warm([folder])
    notes = capsys.readouterr().err.splitlines()
    assert [note.split(":")[0] for note in notes[:3]] == [
        "Transformer decoder",
        "recurrent decoder",
        "digest of weights",
    ]
    assert str(notes[3]).startswith(f"{folder}: ready in ") and len(list(cache.iterdir())) == 1
    assert why_not_stored(folder, model_recipe(folder)) is None
    warm([])
    assert all("on disk already" in note for note in capsys.readouterr().err.splitlines())


def test_kernels_that_have_to_be_compiled_are_not_waited_for(
    folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, lines = network_of(folders("transformer")), list[str]()
    assert store_facts(network)
    monkeypatch.setattr(cold_start, "are_compiled", lambda described: False)
    opened_model = JOB.open_quickly(folders("transformer"), network.recipe, "cpu", lines.append)
    assert not isinstance(opened_model.model, StoredModel)
    assert len(lines) == 1 and "the kernels are not compiled" in lines[0]


def test_a_damaged_description_is_written_anew(folders: Callable[[str], Path], cache: Path) -> None:
    network = network_of(folders("transformer"))
    assert store_facts(network)
    (file,) = cache.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:-8] + bytes(8))
    assert store_facts(network)
    assert_equal_results(network, opened(folders("transformer")), beam=1)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_tokenizer_of_another_vocabulary_is_refused_as_by_the_network(tmp_path: Path, side: str) -> None:
    folder = write_model(tmp_path / "model", "attention")
    assert store_facts(network_of(folder))
    path = folder / f"{side}.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["tokens"].append("zebra")
    path.write_text(json.dumps(tokenizer))
    (folder / "digests.json").unlink(missing_ok=True)
    with pytest.raises(harken.UserError, match=r"does not match the recipe\.toml beside it"):
        JOB.open_quickly(folder, model_recipe(folder), "cpu", lambda line: None)


def test_the_network_of_weights_that_were_written_anew_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "attention")
    network = network_of(folder)
    assert store_facts(network)
    stored = JOB.open_quickly(folder, network.recipe, "cpu", lambda line: None)
    tensors, _ = load_tensors(folder / "model.safetensors")
    save_tensors(folder / "model.safetensors", {name: value * 0.5 for name, value in tensors.items()})
    assert_equal_results(network, stored, beam=1)
    with pytest.raises(harken.UserError, match="written anew since the model was opened; open it again"):
        stored.translate(ENGLISH[0], attention=True)


@pytest.mark.parametrize("kind", ["names", "half"])
def test_model_files_of_other_names_or_types_are_described(tmp_path: Path, kind: str) -> None:
    folder = write_model(tmp_path / "model", "attention")
    path = folder / "model.safetensors"
    tensors, _ = load_tensors(path)
    if kind == "half":
        tensors = {name: value.half() for name, value in tensors.items()}
    else:
        older = {name: name.replace(".weight_", ".inner.weight_") for name in tensors if name.endswith("_l0")}
        assert older
        tensors = {older.get(name, name): value for name, value in tensors.items()}
    save_tensors(path, tensors)
    network = network_of(folder)
    assert store_facts(network)
    assert_equal_results(network, opened(folder), beam=2)


def test_threads_that_need_the_network_share_one() -> None:
    built = list[object]()

    def build() -> Any:
        time.sleep(0.05)
        built.append(object())
        return built[-1]

    model: Any = StoredModel.__new__(StoredModel)
    model.__init__(None, build, {})
    with ThreadPoolExecutor(4) as pool:
        networks = list(pool.map(lambda _: model.network, range(4)))
    assert len(built) == 1 and all(network is built[0] for network in networks)


def test_a_user_without_a_home_has_no_cache(folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(folders("transformer"))
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert why_not_stored(folders("transformer"), network.recipe) == "no description of its decoder is stored yet"
    assert not store_facts(network)


def test_products_of_numpy_run_on_one_thread(folders: Callable[[str], Path]) -> None:
    pytest.importorskip("threadpoolctl")
    code = (
        "import harken.cli\nfrom threadpoolctl import threadpool_info\ntry: harken.cli.main()\n"
        "finally: print([pool['num_threads'] for pool in threadpool_info() if pool['internal_api'] == 'openblas'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", code, "translate", str(folders("attention"))]
    done = subprocess.run(command, input="the cat\n", capture_output=True, text=True, env=environment, check=True)
    assert set(json.loads(done.stdout.splitlines()[-1])) <= {1}


THREADS = """
import json, sys
from pathlib import Path
from harken.api import load_quickly
from harken.kernels.recurrent.cpu import runtime
from harken.lazy_torch import num_threads
from harken.tasks.translate.files import threads
threads.available_cores = lambda: 3
parts, run_all = [], runtime.run_all
def counted(tasks, threads=None):
    parts.append(len(tasks))
    run_all(tasks, threads)
runtime.run_all = counted
translator = load_quickly(Path(sys.argv[1]), lambda line: None)
many = translator.translate(["the black cat", "a white dog sleeps", "the dog", "a cat runs"] * 16, attention=False)
few = translator.translate(["the black cat", "a white dog sleeps"], attention=False)
print(json.dumps([[best.text for best in many], parts, num_threads(), "torch" in sys.modules]))
"""


def test_many_sentences_are_decoded_by_all_cores_without_torch(folders: Callable[[str], Path]) -> None:
    assert store_facts(network_of(folders("attention")))

    def translate(**variables: str) -> list[Any]:
        command = [sys.executable, "-c", THREADS, str(folders("attention"))]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        result: list[Any] = json.loads(done.stdout)
        return result

    texts, parts, after, has_torch = translate(OMP_NUM_THREADS="8")
    assert parts == [3, 1] and after == 1 and not has_torch
    assert translate(OMP_NUM_THREADS="1")[:2] == [texts, [1, 1]]


def test_the_network_for_attention_is_built_before_threads_start(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "attention")
    network, builders = network_of(folder), list[threading.Thread]()
    assert store_facts(network)

    def build() -> Any:
        builders.append(threading.current_thread())
        return network.model

    stored = open_stored(folder, network.recipe, build)
    assert stored is not None
    rows = list(stored.translate_lines(ENGLISH, attention=True, workers=2))
    assert builders == [threading.main_thread()]
    assert all(best.attention is not None for best, *_ in rows)


def test_warm_says_where_nothing_could_be_stored(
    folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folders("transformer")
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    warm([folder])
    note = str(capsys.readouterr().err.splitlines()[3])
    assert note.startswith(f"{folder}: loaded in ") and "it is still opened with torch" in note


def test_warm_refuses_what_is_no_model_before_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.cli.warm.compile_all", lambda: pytest.fail("kernels were compiled"))
    with pytest.raises(harken.UserError, match="is no finished model folder"):
        warm([tmp_path])


def test_the_oldest_descriptions_are_deleted(
    folders: Callable[[str], Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_start, "MOST_STORED", 2)
    cache.mkdir(parents=True)
    for number in range(3):
        (cache / f"{number}.safetensors").touch()
        os.utime(cache / f"{number}.safetensors", (number, number))
    assert store_facts(network_of(folders("transformer")))
    assert len(list(cache.iterdir())) == 2 and (cache / "2.safetensors").exists()
    opened(folders("transformer"))
