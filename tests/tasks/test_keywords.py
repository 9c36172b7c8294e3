"""Calls of predictors as people guess them: signatures with names, types and defaults; types for mypy."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import harken
from harken.search.config import TranslationSearchConfig
from harken.search.descriptions import OPTIONS, SearchKeys
from harken.tasks.interface import fields_of
from harken.tasks.keywords import show_keywords
from harken.tasks.registry import interface_of
from harken.tasks.translate.translator import RequestKeys, TranslateKeys, Translator

CALLS: dict[str, list[Callable[..., Any]]] = {  # of every job: the calls that take the options of its command
    "translate": [Translator.translate, Translator.translate_lines, Translator.alternatives],
    "caption": [harken.Captioner.caption],
    "transcribe": [harken.Transcriber.transcribe],
    "language": [harken.LanguageModel.samples],
    "classify": [harken.Classifier.predict],
    "regress": [harken.Regressor.predict],
    "tag": [harken.Tagger.tag],
    "forecast": [harken.Forecaster.forecast],
    "handwriting": [harken.HandwritingSynthesizer.write],
    "masked": [harken.MaskedLanguageModel.fill],
    "answer": [harken.Answerer.answer],
    "elmo": [],
}
NAMES = {"nbest": "count", "batch": "window", "alternatives": "count"}  # option of a command -> its name in Python
SHOWN = {  # options about what a command prints, reads or writes: attributes of a result, or other calls, in Python
    "translate": {"scores", "alignments", "out", "resume", "engine", "stream", "profile"},
    "transcribe": {"posteriors"},
    "language": {"surprisal"},
    "classify": {"scores", "top"},
    "tag": {"conll", "scores"},
    "forecast": {"series", "test", "end"},
    "handwriting": {"count"},
    "elmo": {"layers"},
}


@pytest.mark.parametrize("task", harken.registry.JOBS)
def test_every_option_of_a_command_is_a_named_argument(task: str) -> None:
    interface = interface_of(task)
    assert interface is not None
    parameters = {name: value for call in CALLS[task] for name, value in inspect.signature(call).parameters.items()}
    options = set(fields_of(interface.options)) - SHOWN.get(task, set())
    assert {NAMES.get(name, name) for name in options} <= set(parameters)
    assert not any(value.kind is inspect.Parameter.VAR_KEYWORD for value in parameters.values())


def test_the_signature_of_translate_has_types_and_defaults() -> None:
    parameters = inspect.signature(Translator.translate).parameters
    assert parameters["glossary"].default is None and "Mapping" in str(parameters["glossary"].annotation)
    assert (parameters["attention"].default, parameters["layers"].default, parameters["prefix"].default) == (
        True,
        False,
        "",
    )
    assert all(value.annotation is not inspect.Parameter.empty for name, value in parameters.items() if name != "self")
    assert all(
        f"    {name}: {OPTIONS[name].description}" in str(Translator.translate.__doc__)
        for name in OPTIONS
        if name != "beam"
    )


def test_types_and_signatures_have_the_same_names() -> None:
    """What mypy reads (typed dicts) is what `inspect.signature` shows."""
    translate = set(inspect.signature(Translator.translate).parameters) - {"self", "texts"}
    assert translate == set(TranslateKeys.__annotations__)
    request = set(inspect.signature(Translator.request).parameters) - {"self", "count", "beam", "search"}
    assert request | (set(OPTIONS) - {"beam"}) == set(RequestKeys.__annotations__)
    assert set(OPTIONS) == set(get_type_hints(SearchKeys)) <= set(TranslationSearchConfig.model_fields)


def test_arguments_of_the_call_itself_come_first() -> None:
    @show_keywords(Translator.request)
    def call(text: str, prefix: str = "x", **options: Any) -> None: ...

    assert [*inspect.signature(call).parameters][:3] == ["text", "prefix", "beam"]
    assert inspect.signature(call).parameters["prefix"].default == "x"


@pytest.mark.slow
def test_mypy_knows_arguments_and_results(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(
        "import harken\n"
        "def use(model: harken.Translator, captioner: harken.Captioner) -> None:\n"
        "    reveal_type(model.translate('a', beam=5, glossary={'letter': 'message'}))\n"
        "    reveal_type(model.translate(['a'], sample=True, seed=3))\n"
        "    reveal_type(captioner.caption('a.png', beam=2))\n"
        "    model.translate('a', baem=5)\n"
        "    model.translate('a', beam='five')\n"
        "    captioner.caption('a.png', glossary={})\n"
    )
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--ignore-missing-imports", "use.py"]
    source = Path(harken.__file__).parents[1]
    done = subprocess.run(
        [*command, "--cache-dir", str(tmp_path / "cache")],
        cwd=tmp_path, env={"MYPYPATH": str(source), "PATH": "/usr/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    assert 'Revealed type is "harken.tasks.translate.translation.Translation"' in lines[0], done.stdout + done.stderr
    assert 'Revealed type is "' in lines[1] and "list[harken.tasks.translate.translation.Translation]" in lines[1]
    assert "harken.tasks.caption.captioner.Caption" in lines[2]
    errors = "\n".join(lines[3:])
    assert all(f"use.py:{number}" in done.stdout for number in (6, 7, 8)) and "baem" in errors
