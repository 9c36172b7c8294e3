"""Calls with many keyword arguments: `inspect.signature`, `help` and completion show each with type and default.

A call passes keyword arguments on to others, `translate(text, **options)`. Type checkers read names and types from
`**options: Unpack[Keys]`; at run time `show_keywords` puts them into the signature, from the calls that take them.

>>> from typing import TypedDict
>>> class Keys(TypedDict, total=False):
...     beam: Annotated[int | None, "beam width; 1 is greedy search"]
>>> @show_keywords(Keys)
... def translate(text, **options):
...     "The best translation."
>>> inspect.signature(translate)
<Signature (text, *, beam: int | None = None)>
>>> print(translate.__doc__)
The best translation.
<BLANKLINE>
Options:
    beam: beam width; 1 is greedy search
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from harken.tasks.interface import fields_of

F = TypeVar("F", bound=Callable[..., Any])


def show_keywords(*sources: Any) -> Callable[[F], F]:
    """A decorator that shows `**options` as the keyword arguments of `sources`.

    Args:
        sources: functions whose keyword-only arguments are taken, dataclasses of options (`harken.tasks.interface`),
            and typed dicts, whose keys have the default None.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [value for value in signature.parameters.values() if value.kind is not inspect.Parameter.VAR_KEYWORD]
        names, passed, described = {value.name for value in own}, dict[str, inspect.Parameter](), list[str]()
        for source in sources:
            for parameter, description in _keywords(source):
                if parameter.name not in names:
                    passed.setdefault(parameter.name, parameter)
                    described += [f"    {parameter.name}: {description}"] if description else []
        function.__signature__ = signature.replace(parameters=[*own, *passed.values()])  # type: ignore[attr-defined]
        if described:
            function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Options:", *described])
        return function

    return decorate


def _keywords(source: Any) -> Iterator[tuple[inspect.Parameter, str]]:
    if not isinstance(source, type):
        for parameter in inspect.signature(source).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                yield parameter, ""
        return
    if is_dataclass(source):
        for field in fields_of(source).values():
            parameter = inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.kind
            )
            yield parameter, field.option.description
        return
    for name, hint in get_type_hints(source, include_extras=True).items():
        kind, description = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind), description
