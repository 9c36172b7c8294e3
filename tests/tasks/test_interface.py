"""Interfaces: every job declares one, and what is derived from them agrees."""

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import ValidationError
from typer.main import get_command

from harken.cli.app import app
from harken.errors import UserError
from harken.registry import JOBS, TASKS
from harken.serving.dialects.jobs import routes_of
from harken.serving.dialects.schemas import SEARCH_KEYS, body_of, options_model
from harken.tasks.interface import (
    CommandLine,
    Files,
    Interface,
    Operation,
    Option,
    Options,
    Texts,
    fields_of,
    search_fields,
)
from harken.tasks.job import Job
from harken.tasks.registry import interface_of, job_of
from harken.tasks.results import as_result


@pytest.mark.parametrize("task", JOBS)
def test_every_job_declares_an_interface(task: str) -> None:
    interface = interface_of(task)
    assert interface is not None and interface is job_of(task).interface
    assert interface.help.endswith(".") or "\n" in interface.help
    assert all(f"harken {interface.verb}" in example for example in interface.examples) and interface.examples
    assert interface.usage_line.startswith(f"harken {interface.verb} {{}}")
    assert interface.input.example
    for operation in interface.operations:
        assert callable(getattr(job_of(task), f"serve_{operation.verb}"))


@pytest.mark.parametrize("task", JOBS)
def test_the_body_of_a_request_has_the_fields_of_input_and_options(task: str) -> None:
    interface = interface_of(task)
    assert interface is not None
    given = set() if isinstance(interface.input, Files) else set(fields_of(interface.input.request))
    options = {name for name, field in fields_of(interface.options).items() if field.option.in_request}
    streamed = {"stream"} if interface.is_streamed else set()
    streamed |= SEARCH_KEYS if interface.takes_search else set()
    assert set(body_of(interface).model_fields) == {"model", "timeout"} | given | options | streamed


@dataclass(frozen=True)
class CountOptions(Options):
    count: Annotated[int, Option("how many", ge=1, le=1000, served_le=10, slider=(1, 5, 1))] = 2
    lines: Annotated[bool, Option("for the command alone", in_request=False)] = False


@pytest.mark.parametrize("task", JOBS)
def test_the_command_has_the_help_and_the_options_of_the_interface(task: str) -> None:
    interface = interface_of(task)
    assert interface is not None
    command = get_command(app).commands[interface.verb]  # type: ignore[attr-defined]
    flags = {flag for parameter in command.params for flag in parameter.opts if flag.startswith("--")}
    fields = [field for field in fields_of(interface.options).values() if field.option.in_command]
    declared = {field.option.flag or f"--{field.name.replace('_', '-')}" for field in fields}
    common = {"--json", "--format", "--text-column", "--replace", "--out"}
    assert command.help == interface.help and declared <= flags <= declared | common


def test_the_options_of_a_search_are_declared_for_translation() -> None:
    interface = interface_of("translate")
    assert interface is not None
    fields = fields_of(interface.options)
    assert {"beam", "nbest", "resume", "stream", *search_fields()} <= fields.keys()
    options = interface.options(nbest=3, beam=2)  # type: ignore[call-arg]
    with pytest.raises(UserError, match="--nbest 3 needs a beam as wide"):
        options.check_command(CommandLine(None, False, None))


def test_bounds_of_requests_are_those_that_are_declared() -> None:
    interface = Interface("count", "Count.", Texts(), CountOptions)
    body = body_of(interface)
    assert body(text="a").count == 2  # type: ignore[attr-defined]
    for wrong in ({"count": 0}, {"count": 11}, {"lines": True}, {"count": float("nan")}):
        with pytest.raises(ValidationError):
            body(text="a", **wrong)
    schema = options_model(interface).model_json_schema()["properties"]
    assert schema["count"]["x-slider"] == [1, 5, 1] and schema["count"]["maximum"] == 10 and "lines" not in schema


def test_defaults_of_options_are_those_of_requests() -> None:
    for interface in filter(None, map(interface_of, JOBS)):
        fields = fields_of(interface.options)
        model = options_model(interface)
        assert {name: field.default for name, field in model.model_fields.items()} == {
            name: fields[name].default for name in model.model_fields
        }
        assert interface.options() == interface.options(**{name: field.default for name, field in fields.items()})
        assert dataclasses.is_dataclass(interface.options)


def test_interfaces_import_nothing_heavy() -> None:
    code = (
        "import sys\nfrom harken.registry import JOBS\nfrom harken.tasks.registry import interface_of\n"
        "[interface_of(task) for task in JOBS]\n"
        "print(sorted({'torch', 'numpy', 'pydantic', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_plain_values_are_results() -> None:
    assert as_result("garden").to_records(None) == [{"text": "garden"}]
    assert str(as_result({"value": 3})) == '{"value": 3}' and as_result({"value": 3}).to_json(None) == {"value": 3}


def test_operations_say_when_nothing_else_may_use_the_model() -> None:
    translate, language = interface_of("translate"), interface_of("language")
    assert translate is not None and language is not None
    assert not translate.is_exclusive({"masked_heads": []}) and translate.is_exclusive(
        {"masked_heads": [("cross", 0, 1)]}
    )
    exclusive = {operation.verb: operation.is_exclusive({}) for operation in (language, *translate.operations)}
    assert exclusive == {
        "generate": False, "attention": True, "beam": False, "alternatives": False, "score": False, "gates": True,
    }  # fmt: skip
    assert translate.streams_in_thread and not language.streams_in_thread


def test_two_jobs_declare_no_different_operations_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class OtherJob(Job):
        interface = Interface("guess", "Guess.", Texts(), operations=(Operation("score", "Otherwise.", Texts()),))

    monkeypatch.setitem(TASKS._registered, "other", OtherJob)
    with pytest.raises(UserError, match="'translate' and 'other' declare different operations named 'score'; rename"):
        routes_of(["other"])
