"""Commands that apply a trained model to input, derived from the interfaces of jobs (`harken.tasks.interface`).

`command_of` makes `harken classify`, `harken tag` ... and those of jobs in plugins; `harken predict MODEL ...` is the
one of the job that a model was trained for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from harken.cli.common import (
    AsJson,
    Beam,
    FileFormat,
    ModelFolder,
    ReplaceBytes,
    TextColumn,
    annotation_of,
    examples,
    in_batches,
    load_with_job,
    other_job,
    print_json,
    require_ending,
    save_figure,
    with_signature,
)
from harken.cli.exits import guarded
from harken.cli.messages import logger
from harken.cli.progress import counting
from harken.errors import UserError
from harken.tasks.interface import (
    Argument,
    CommandLine,
    Field,
    Interface,
    Operation,
    Options,
    Reading,
    fields_of,
    search_fields,
)
from harken.tasks.registry import JOBS, interface_of, plugin_interfaces
from harken.tasks.results import Printing, Result, as_result

if TYPE_CHECKING:
    from harken.tasks.job import Job

Command = Callable[..., None]
NOTED = 3  # words that a note names
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True}  # `predict` leaves options to another command


def command_of(task: str, interface: Interface) -> Command:
    """The function of a command, with a signature from which typer makes its arguments and options."""
    form, own = interface.input, fields_in_command(interface.options)
    kinds, defaults = parameters_of(form.argument, own)
    if form.has_formats:
        kinds |= {"form": FileFormat, "text_column": TextColumn}
        defaults |= {"form": "auto", "text_column": None}
    if form.is_replaceable:
        kinds["replace"], defaults["replace"] = ReplaceBytes, False
    if interface.figure is not None:
        stem = interface.figure
        text = f"Also write the figure: {stem}.html, {stem}.svg or {stem}.png."
        kinds["out"], defaults["out"] = Annotated[Path | None, typer.Option(help=text)], None
    kinds["as_json"], defaults["as_json"] = AsJson, False

    def run(**given: Any) -> None:
        options = interface.options(**{name: given[name] for name in own})
        reading = Reading(given.get("form", "auto"), given.get("text_column"), given.get("replace", False), logger.info)
        out = None if interface.figure is None else given["out"]
        command = CommandLine(given[form.argument.name], given["as_json"], out)
        if interface.runner is not None:
            module, _, name = interface.runner.partition(":")
            getattr(import_module(module), name)(given["model"], options, reading, command)
            return
        model, job = load(task, interface, given["model"], options, command)
        predict_all(interface, job, model, options, reading, command)

    run.__name__, run.__doc__ = interface.verb, interface.help
    return examples(*interface.examples)(with_signature(run, kinds, defaults))


def fields_in_command(options: type) -> dict[str, Field]:
    """The fields of a dataclass of options that a command has."""
    return {name: field for name, field in fields_of(options).items() if field.option.in_command}


def parameters_of(argument: Argument, fields: Mapping[str, Field]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types and the defaults of the parameters of a command."""
    kinds = {
        "model": ModelFolder,
        argument.name: Annotated[argument.kind, typer.Argument(help=argument.help, metavar=argument.metavar)],
        **{name: annotation_of(field) for name, field in fields.items()},
    }
    defaults = {name: field.default for name, field in fields.items()}
    return kinds, defaults if argument.is_required else {**defaults, argument.name: None}


def operation_command(operation: Operation) -> Command:
    """The function of the command of a further operation: its results as JSON, one on each line."""
    form, own = operation.input, fields_in_command(operation.options)
    search = search_fields() if operation.takes_search else {}
    extra = {name: field for name, field in fields_in_command(form.request).items() if name not in form.item_of("")}
    kinds, defaults = parameters_of(form.argument, {**search, **own, **extra})
    if operation.takes_search:
        kinds["beam"], defaults["beam"] = Beam, None

    def run(**given: Any) -> None:
        model, job = load_with_job(given["model"])
        if job.interface is None or operation not in job.interface.operations:
            raise UserError(f"{given['model']} has the task {model.recipe.task!r}, whose job has no {operation.verb!r}")
        options: dict[str, Any] = {name: given[name] for name in own}
        if operation.takes_search:
            options["search"] = {name: given[name] for name in ("beam", *search) if given[name] not in (None, [])}
        value, further = given[form.argument.name], {name: given[name] for name in extra}
        for batch in in_batches(form.read(job, model, value, Reading(report=logger.info), None), value):
            items = [{**form.item_of(example), **further} for example in batch]
            for result in getattr(job, f"serve_{operation.verb}")(model, items, options):
                print_json(result)

    run.__name__, run.__doc__ = operation.verb, operation.help
    return with_signature(run, kinds, defaults)


def load(task: str, interface: Interface, folder: Path, options: Options, command: CommandLine) -> tuple[Any, Job]:
    """The model of a command, whose options are checked first, and its job.

    Raises:
        UserError: options that do not fit together, no model folder, or one of another job.
    """
    require_ending(command.out, stem=interface.figure or "")
    options.check_command(command)
    model, job = load_with_job(folder)
    if job.interface is None or job.interface.verb != interface.verb:
        raise UserError(other_job(folder, model.recipe.task, task))
    return model, job


def predict_all(
    interface: Interface, job: Job, model: Any, options: Options, reading: Reading, command: CommandLine
) -> None:
    """Read examples, and print a result for each.

    Raises:
        UserError: an input that the model cannot read.
    """
    inputs = interface.input.read(job, model, command.value, reading, options)
    if interface.is_streamed and options.is_streamable and not command.as_json:
        for number, example in enumerate(inputs):
            print("\n" * bool(number) + interface.input.opening(example), end="", flush=True)
            for part in job.stream(model, example, options, lambda: False):
                print(part, end="", flush=True)
            print()
        return
    number, unseen, drawn = 0, list[str](), list[Result]()  # the first unseen word of a text
    with counting(interface.unit, command.value is not None and not sys.stdout.isatty()) as tick:
        for batch in in_batches(inputs, command.value, interface.batch):
            results = map(as_result, job.predict(model, batch, options, tick))
            for example, result in zip(batch, results, strict=True):
                if command.as_json:
                    print_records(interface, number, example, result, options)
                else:
                    printing = Printing(sys.stdout.isatty(), number == 0 and len(batch) == 1, number)
                    print(result.to_text(options, printing))
                for note in result.notes:
                    logger.info(note)
                number += 1
                unseen += job.unseen_words(model, example)[:1]
                if command.out is not None:
                    drawn.append(result)
    if unseen:
        shown = ", ".join(list(dict.fromkeys(unseen))[:NOTED])
        logger.info(
            f"{len(unseen):,} of {number:,} {interface.unit} have words or letters that training did not have "
            f"({shown}); the answers are guesses there"
        )
    if command.out is not None:
        save_figure(job.figure(drawn), command.out)


def print_records(interface: Interface, number: int, example: Any, result: Result, options: Options) -> None:
    """Print a result as JSON, under the text it belongs to or the number of a signal."""
    key = interface.input.example_key
    named = {} if key is None else {key: example if isinstance(example, str) else number}
    for record in result.to_records(options):
        print_json({**named, **record} if named else record)


def add_job_commands(app: typer.Typer) -> None:
    """A command for every job that ships, in the order of the help."""
    for task in JOBS:
        if (interface := interface_of(task)) is not None:
            add_command(app, command_of(task, interface))


def add_commands(app: typer.Typer, *commands: Command) -> None:
    """Add several commands."""
    for command in commands:
        add_command(app, command)


def add_command(app: typer.Typer, command: Command, **settings: Any) -> None:
    """Add a command with its `examples` at the end of its help."""
    listed = "\n\n".join(getattr(command, "examples", ()))
    app.command(epilog=f"Examples:\n\n{listed}" if listed else None, **settings)(guarded(command))


def plugin_commands() -> dict[str, Any]:
    """The commands of jobs that do not ship, and of their further operations."""
    interfaces = plugin_interfaces()
    commands = {interface.verb: command_of(task, interface) for task, interface in interfaces.items()}
    return {**operation_commands(interfaces.values()), **commands}


def operation_commands(interfaces: Iterable[Interface]) -> dict[str, Command]:
    """The commands of the further operations of jobs."""
    return {operation.verb: operation_command(operation) for known in interfaces for operation in known.operations}


def single_command(command: Command) -> Any:
    """A derived command outside an app."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    add_command(app, command)
    single = typer.main.get_command(app)
    single.name = command.__name__
    return single


class JobGroup(TyperGroup):
    """All commands, those of jobs in plugins among them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; plugins and operations are asked only for names that are not known otherwise."""
        if (command := super().get_command(ctx, cmd_name)) is not None:
            return command
        shipped = filter(None, map(interface_of, JOBS))
        derived = {**operation_commands(shipped), **plugin_commands()}
        return single_command(derived[cmd_name]) if cmd_name in derived else None

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return [*super().list_commands(ctx), *(name for name in plugin_commands() if name not in self.commands)]


@examples("harken predict runs/opinions texts.txt --json", "harken predict runs/demo text.en --beam 5")
def predict(context: typer.Context, model: ModelFolder) -> None:
    """Apply a model of any job to input: the command of its job, with the same arguments and options.

    `harken predict runs/opinions texts.txt --json` is `harken classify runs/opinions texts.txt --json`.
    """
    task, interface = declared(model)
    assert context.parent is not None and isinstance(context.parent.command, TyperGroup)
    command = context.parent.command.get_command(context.parent, interface.verb) or single_command(
        command_of(task, interface)
    )
    command.main([str(model), *context.args], prog_name=f"harken {interface.verb}")


def declared(folder: Path) -> tuple[str, Interface]:
    """The task of a model folder and its interface, without loading the weights.

    Raises:
        UserError: it is no model folder, or its job has no interface.
    """
    from harken.recipe import load_recipe

    if not (folder / "recipe.toml").is_file():
        load_with_job(folder)  # says what is missing
    task = load_recipe(folder / "recipe.toml", with_data=False).task
    interface = interface_of(task)
    if interface is None:
        raise UserError(f"the task {task!r} declares no interface, so it has no command of its own")
    return task, interface
