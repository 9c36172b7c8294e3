"""`harken generate`: text that a language model writes, as it writes it; or how surprised it is at a text.

Formats:

    plain         the prompt and what follows it; several are separated by an empty line
    --json        {"prompt": ..., "text": ...} a line for each
    --surprisal   the text with a bar for every token, or with --json [{"token": ..., "nats": ...}, ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.common import (
    MAX_COUNT,
    MAX_SEED,
    AsJson,
    ModelFolder,
    load_for,
    open_lines,
    require_ending,
    save_figure,
)
from harken.errors import UserError


def generate(
    model: ModelFolder,
    prompts: Annotated[
        list[str] | None, typer.Argument(metavar="[PROMPT]...", help="What to go on from, in quotes; `-`: from stdin.")
    ] = None,
    length: Annotated[int, typer.Option(min=1, max=MAX_COUNT, help="Tokens to write.")] = 200,
    temperature: Annotated[
        float, typer.Option(max=1e6, help="Below 1 safer, above 1 bolder; 0: the likeliest token every time.")
    ] = 1.0,
    top_k: Annotated[int | None, typer.Option(max=MAX_COUNT, help="Draw from so many likeliest tokens alone.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest likeliest tokens that have this probability together.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Draw from tokens at least this probable beside the likeliest.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same text.")] = 0,
    count: Annotated[int, typer.Option(min=1, max=MAX_COUNT, help="Texts for each prompt.")] = 1,
    line: Annotated[bool, typer.Option("--line", help="Stop at the end of a line.")] = False,
    surprisal: Annotated[
        bool, typer.Option("--surprisal", help="Write nothing: show how surprising every token of the prompt is.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="With --surprisal: also write the picture, .html, .svg, .png.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a language model write on from a prompt, each token drawn and fed back."""
    if out is not None and not surprisal:
        raise UserError("--out writes the picture of --surprisal; add it, or send the text to a file with >")
    require_ending(out)
    texts = [_stdin() if prompt == "-" else prompt for prompt in prompts or ["" if sys.stdin.isatty() else "-"]]
    loaded = load_for("language", model)
    options: dict[str, Any] = {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    options |= {"seed": seed, "line": line} | ({} if min_p is None else {"min_p": min_p})
    for number, text in enumerate(texts):
        if surprisal:
            _show_surprisal(loaded, text, out, as_json)
        else:
            _write(loaded, text, count, options, as_json, number > 0)


def _stdin() -> str:
    """What is piped in, as one prompt."""
    return "\n".join(open_lines(None))


def _write(model: Any, prompt: str, count: int, options: dict[str, Any], as_json: bool, more: bool) -> None:
    if as_json:
        for text in model.samples(prompt, count, **options):
            print(json.dumps({"prompt": prompt, "text": text}, ensure_ascii=False), flush=True)
        return
    if count == 1:
        print(("\n" if more else "") + prompt, end="", flush=True)
        for piece in model.stream(prompt, **options):
            print(piece, end="", flush=True)
        print()
        return
    for number, text in enumerate(model.samples(prompt, count, **options)):
        print(("\n" if more or number else "") + prompt + text, flush=True)


def _show_surprisal(model: Any, text: str, out: Path | None, as_json: bool) -> None:
    picture = model.surprisal(text)
    if as_json:
        pairs = zip(picture.tokens, picture.nats, strict=True)
        rows = [{"token": token, "nats": round(value, 4)} for token, value in pairs]
        print(json.dumps(rows, ensure_ascii=False))
    else:
        print(picture.to_terminal())
    save_figure(picture, out)
