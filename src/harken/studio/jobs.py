"""The answer of a model of any job to one input, and the picture behind it.

The job says what it takes (`Job.form`) and what it shows (`Job.show`); the page makes a form of the first and draws the
second. Sounds, images and tables come as uploaded files, which the job reads from a temporary file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harken.errors import UserError
from harken.serving.dialects.schemas import options_model
from harken.serving.operations import as_files
from harken.studio.figures import figures_json, plain
from harken.studio.library import LoadedModel
from harken.tasks.interface import Form, Interface


def describe_input(opened: LoadedModel) -> dict[str, Any]:
    """The input of the model: a text, a file or one of several choices; and its options as JSON schema."""
    interface, form = declared(opened), opened.job.form(opened.model)
    return {
        "task": opened.task,
        "verb": interface.verb,
        "label": interface.input.label,
        "live": interface.is_live,
        "example": form.example,
        "file": list(form.endings),
        "choices": form.choices,
        "takes_text": form.takes_text,
        "options": options_model(interface).model_json_schema()["properties"],
    }


def answer(
    opened: LoadedModel, text: str = "", file: tuple[str, bytes] | None = None, **options: Any
) -> dict[str, Any]:
    """The answer of the model, as rows to read and figures to look at.

    Args:
        text: the input of models that read texts, or one of the choices.
        file: name and content of an uploaded file.
        options: those of the job.

    Raises:
        UserError: an input or options that the model cannot take.
    """
    interface = declared(opened)
    try:
        values = options_model(interface).model_validate(options)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UserError(f"{first['loc'][0]}: {first['msg']}") from None
    chosen = interface.options(**values.model_dump())
    if file is None:
        return shown(opened, text, chosen)
    name, content = file
    require_ending(opened.job.form(opened.model), opened.task, name)
    with as_files([{"name": name, "data": content}]) as (stored,):
        answered = shown(opened, str(stored["path"]), chosen)
        for part in (answered, *answered["figures"]):
            for place in (str(stored["path"]), stored["path"].name):
                part["title"] = part["title"].replace(place, name)
    return answered


def shown(opened: LoadedModel, example: str, options: Any) -> dict[str, Any]:
    """The picture that the job shows of one example."""
    show = opened.job.show(opened.model, example, options)
    picture: Any = show.picture
    figures = [] if picture is None else picture.page_figures()
    return {
        "title": show.title if picture is None else picture.heading,
        "caption": "" if picture is None else picture.caption,
        "rows": plain(show.rows),
        "figures": figures_json(figures),
        **{name: plain(value) for name, value in show.more.items()},
    }


def declared(opened: LoadedModel) -> Interface:
    """The interface of a model's job.

    Raises:
        UserError: it has none.
    """
    interface: Interface | None = opened.job.interface
    if interface is None:
        raise UserError(f"the task {opened.task!r} declares no interface, so it has no form here")
    return interface


def require_ending(form: Form, task: str, name: str) -> None:
    """Refuse a file before it is read.

    Raises:
        UserError: the job reads no such files.
    """
    if Path(name).suffix.lower() not in form.endings:
        takes = f"it reads {', '.join(form.endings)}" if form.endings else "it reads texts"
        raise UserError(f"a model of the task {task!r} cannot read {name!r}; {takes}")
