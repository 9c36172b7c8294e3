"""All verbs under one `harken`. A verb imports what it needs when it runs, so that `--help` is instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from harken.cli.embed import embed
from harken.cli.exits import guarded
from harken.cli.inspection.attention import attention
from harken.cli.inspection.beam import beam
from harken.cli.inspection.inspect import inspect
from harken.cli.inspection.lab import lab
from harken.cli.inspection.ladder import ladder
from harken.cli.jobs.answer import answer
from harken.cli.jobs.caption import caption
from harken.cli.jobs.classify import classify
from harken.cli.jobs.forecast import forecast
from harken.cli.jobs.generate import generate
from harken.cli.jobs.regress import regress
from harken.cli.jobs.score import score
from harken.cli.jobs.tag import tag
from harken.cli.jobs.transcribe import transcribe
from harken.cli.jobs.translate import translate
from harken.cli.jobs.write import write
from harken.cli.serving.serve import serve
from harken.cli.serving.studio import studio
from harken.cli.training.average import average
from harken.cli.training.check import check
from harken.cli.training.compare import compare
from harken.cli.training.demo import demo
from harken.cli.training.distill import distill
from harken.cli.training.evaluate import evaluate
from harken.cli.training.export import export
from harken.cli.training.new import new
from harken.cli.training.plot import plot
from harken.cli.training.recipes import recipes
from harken.cli.training.runs import runs
from harken.cli.training.train import train

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with: harken demo\n\nThen: harken recipes, harken train RECIPE --out DIR, harken translate DIR",
)

EXAMPLES: dict[Callable[..., None], str] = {
    train: "harken train phrasebook-attention --out runs/attention\n\n"
    "harken train my.toml --out runs/mine --set train.max_minutes=30 --set data.source=train.en\n\n"
    "harken train pairs.tsv --out runs/mine      (data without a recipe: the job is inferred)\n\n"
    "harken train my.toml --out runs/mine --resume      (after Ctrl-C, a crash or a power cut)",
    distill: "harken distill runs/demo --out runs/student --recipe phrasebook-student\n\n"
    "harken distill runs/one runs/two --out runs/student      (an ensemble; the recipe follows the first teacher)\n\n"
    "harken distill runs/demo --out runs/student --resume      (after Ctrl-C)",
    new: "harken new      (asks three questions)\n\n"
    "harken new news.csv --task classify --target-column topic --minutes 10 --out news.toml",
    check: "harken check phrasebook-transformer\n\n"
    "harken check multi30k-transformer --set data.dir=DIR --set data.pair=en-de",
    recipes: "harken recipes\n\nharken recipes phrasebook-transformer --out my.toml      (a file to start from)",
    runs: "harken runs runs\n\nharken runs runs --json",
    plot: "harken plot runs/attention runs/rnn\n\nharken plot runs/* --x minutes --out curves.html",
    compare: "harken compare runs/attention runs/rnn\n\n"
    "harken compare runs/attention runs/rnn --split test      (with a paired test of the translations)",
    translate: "echo 'the black cat sleeps' | harken translate runs/demo\n\n"
    "harken translate runs/demo text.en --alignments links.txt > text.fr\n\n"
    "harken translate runs/demo text.en --nbest 5      (lines of: index ||| text ||| score)\n\n"
    "harken translate runs/demo million.en --resume million.fr      (continues after a kill)\n\n"
    "harken translate runs/demo runs/attention text.en      (an ensemble)\n\n"
    "harken translate runs/demo text.en --glossary terms.tsv --no-repeat-ngram 3",
    score: "harken score runs/demo test.en test.fr\n\n"
    "harken score runs/demo test.en test.fr --tokens      (with the log-probability of every piece)",
    forecast: "harken forecast runs/airline --out forecast.svg\n\n"
    "harken forecast runs/airline past.csv --steps 12 --json",
    transcribe: "harken transcribe runs/digits number.wav\n\n"
    "ls *.wav | harken transcribe runs/digits - --beam 8 --json",
    classify: "echo 'the film was not good' | harken classify runs/opinions --scores\n\n"
    "harken classify runs/gestures signals.npz --top 3",
    regress: "echo 'three rooms and a garden' | harken regress runs/prices\n\n"
    "harken regress runs/prices homes.txt --json\n\nharken regress runs/load signals.npz",
    evaluate: "harken evaluate runs/demo --source test.en --reference test.fr\n\n"
    "harken evaluate runs/demo --split test-long --compare runs/attention",
    average: "harken average runs/first runs/second --out runs/average\n\n"
    "harken average runs/first runs/second --weights 2,1 --out runs/average",
    export: "harken export runs/demo --to onnx --out runs/demo-onnx\n\n"
    "harken export runs/demo --to ctranslate2 --out runs/demo-ct2",
    answer: "printf 'Anna went to the hall.\\nWhere is Anna?\\n' | harken answer runs/answer\n\n"
    "harken answer runs/answer story.txt --question 'Where is the key?' --json",
    attention: "harken attention runs/demo 'the black cat sleeps'\n\n"
    "harken attention runs/demo 'the black cat sleeps' --out map.html\n\n"
    "harken attention runs/demo 'the black cat sleeps' --target 'le chat noir dort'",
    beam: "harken beam runs/demo 'the black cat sleeps'\n\n"
    "harken beam runs/demo 'the black cat sleeps' --beam 3 --length-penalty 0 --out beam.html",
    generate: "harken generate runs/language 'the black cat' --line --count 5\n\n"
    "harken generate runs/shakespeare 'ROMEO:' --length 500 --temperature 0.8 --top-p 0.95\n\n"
    "harken generate runs/language 'the black cat sleeps' --surprisal --out surprise.svg",
    caption: "harken caption runs/scenes picture.png\n\n"
    "harken caption runs/scenes a.png b.png --json\n\n"
    "harken caption runs/scenes pictures --out maps.html      (a folder; one map a word)",
    ladder: "harken ladder      (LSTM, LSTM with attention, Transformer on the phrasebook: about ten minutes)\n\n"
    "harken ladder my.toml --out runs/ladder --rungs lstm,attention,transformer --set train.max_minutes=3",
    lab: "harken lab list\n\nharken lab vanishing\n\nharken lab all --out runs/lab --html",
    inspect: "harken inspect runs/rnn      (parts, and the largest singular value of the recurrent weights)\n\n"
    "harken inspect runs/rnn --gates 'the black cat sleeps' --out gates.html\n\n"
    "harken inspect runs/rnn --gradients --compare runs/attention --out gradients.svg",
    write: "harken write runs/pen 'hello world' --out hello.svg\n\n"
    "harken write runs/pen 'hello world' --bias 2 --count 5\n\n"
    "harken write runs/omniglot --count 12 --out drawings.html      (a model that draws from nothing)",
    tag: "echo 'we clean the clean house' | harken tag runs/tags\n\n"
    "harken tag runs/tags sentences.txt --conll > tagged.conll",
    serve: "harken serve runs/demo      (then open http://127.0.0.1:5000)\n\n"
    "harken serve runs/en-fr@en-fr runs/fr-de@fr-de --workers 2      (en to de goes through fr)\n\n"
    "harken serve --api-keys keys.json --new-key alice      (prints a key)",
    studio: "harken studio runs --open\n\nharken studio runs/demo --port 8000",
    demo: "harken demo\n\nharken demo --out runs/another\n\nharken demo --open      (then the studio in the browser)",
}

for verb, examples in EXAMPLES.items():
    app.command(epilog=f"Examples:\n\n{examples}")(guarded(verb))

app.add_typer(embed, name="embed")


def _print_version(wanted: bool) -> None:
    if wanted:
        import harken

        typer.echo(f"harken {harken.__version__}")
        raise typer.Exit


@app.callback()
def harken_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
    plugins: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="MODULE", help="Import this module or .py file first; may be given often."),
    ] = None,
) -> None:
    """Train sequence models, look inside them, and put them to work."""
    from harken.registry import import_plugin

    for plugin in plugins or []:
        guarded(import_plugin)(plugin)
