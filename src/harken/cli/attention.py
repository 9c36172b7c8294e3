"""`harken attention`: what a model looks at, of a translator the alignment map, in the terminal or as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.options import Beam, ModelFolder
from harken.cli.printing import tell
from harken.errors import UserError

ENDINGS = (".html", ".svg", ".png")


def attention(
    model: ModelFolder,
    sentence: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A sentence in quotes; for jobs that read signals or images, the path of a file."
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="Read this translation instead of the model's own (teacher forcing).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the picture: map.html, map.svg or map.png.")] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Every layer and head, over subword pieces (--out: .html).")
    ] = False,
    beam: Beam = None,
) -> None:
    """Draw what a model pays attention to: of a translator the alignment map, source across, target down."""
    if not sentence.strip():
        raise UserError("the input is empty; give some words in quotes, or the path of a file")
    if out is not None and out.suffix.lower() not in (ENDINGS[:1] if layers else ENDINGS):
        allowed = "map.html with --layers" if layers else "map.html, map.svg or map.png"
        raise UserError(f"--out {out} has the ending {out.suffix!r}; name it like {allowed}")
    from harken.api import load

    translator = load(model)
    if translator.recipe.task != "translate":
        if target is not None or layers or beam is not None:
            raise UserError(f"--target, --layers and --beam are for translators, and {model} is none; leave them out")
        _look(translator, sentence, out)
        return
    if target is None:
        best = translator.translate(sentence, beam=beam, attention=True, layers=layers)
    else:
        best = translator.align(sentence, target, layers=layers)
    if best.attention is None:
        raise UserError(f"{model} has no attention to draw; train one that has, such as phrasebook-attention")
    print(f"{best.text}   (score {best.score:.3f})\n")
    if layers:
        grid = best.grid()
        for layer in range(grid.layers.shape[0]):
            for head in range(grid.layers.shape[1]):
                print(f"{grid.map(layer, head).to_terminal()}\n")
    else:
        print(best.map().to_terminal())
    if out is not None:
        (best.grid() if layers else best.map()).save(out)
        tell(f"Wrote {out}")


def _look(model: Any, example: str, out: Path | None) -> None:
    """Any job but translation: the picture it makes of its attention."""
    from harken.tasks.registry import job_of

    picture = job_of(model.recipe.task).look(model, example)
    print(picture.to_terminal())
    if out is not None:
        picture.save(out)
        tell(f"Wrote {out}")
