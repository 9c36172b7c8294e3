"""A worker process of the studio: holds models, runs one task after the other; see `harken.studio.workers`."""

from __future__ import annotations

import base64
import json
import signal
import sys
from collections.abc import Callable
from typing import Any

from harken.errors import UserError
from harken.registry import import_plugins
from harken.serving.errors import describe_internal_error
from harken.studio.library import Library

Emit = Callable[[dict[str, Any]], None]


class Tasks:
    """The tasks of the studio by their names; each takes the fields of a request and returns a JSON value.

    Args:
        emit: sends an event of the task that runs.
        cancelled: whether that task is to stop.
    """

    def __init__(self, library: Library, emit: Emit, cancelled: Callable[[], bool]) -> None:
        self.library, self.emit, self.cancelled = library, emit, cancelled

    def translate(self, model: str, **fields: Any) -> Any:
        """Events with the certain text so far, then the best translations."""
        from harken.studio.translating import TranslationRequest, translate

        translator = self.library.open(model, "translate").model
        request = TranslationRequest.of(fields)
        return {"done": translate(translator, request, lambda text: self.emit({"part": text}), self.cancelled)}

    def alternatives(self, model: str, count: int, **fields: Any) -> Any:
        """Translations that go on differently after a prefix."""
        from harken.studio.translating import TranslationRequest, alternatives_of

        translator = self.library.open(model, "alternatives").model
        return {"alternatives": alternatives_of(translator, TranslationRequest.of(fields), count)}

    def inside(self, model: str, text: str, heads: list[dict[str, Any]], words: list[int], beam: int | None) -> Any:
        """The weights of every head, and what changes where parts are switched off."""
        from harken.inspection.measures.ablation import Head
        from harken.studio.inside import SwitchedOff, look_inside

        off = SwitchedOff([Head(**head) for head in heads], words)
        return look_inside(self.library.open(model, "translate").model, text, off, beam)

    def gates(self, model: str, text: str) -> Any:
        """Gates and states of a recurrent model over a text."""
        from harken.inspection import gates
        from harken.studio.figures import figures_json

        trace = gates(self.library.open(model).model, text)
        return {"title": trace.title, "figures": figures_json(trace.picture().figures())}

    def gradients(self, model: str, sentences: int, compare: list[str]) -> Any:
        """How gradients flow back, for one model or several."""
        from harken.inspection import gradient_flow
        from harken.inspection.pictures.flow import HEADINGS, FlowPicture
        from harken.studio.figures import figures_json

        flows = {}
        for name in dict.fromkeys([model, *compare]):
            opened = self.library.open(name)
            examples = list(opened.job.examples(opened.model, "valid"))[:sentences]
            flows[name] = gradient_flow(opened.model, examples)
        picture = FlowPicture(flows)
        return {
            "verdicts": {name: {"kind": flow.kind, "sentence": flow.verdict} for name, flow in flows.items()},
            "columns": HEADINGS,
            "rows": picture.rows(),
            "caption": picture.caption,
            "figures": figures_json(picture.page_figures()),
        }

    def neighbours(self, model: str, word: str, side: str, count: int) -> Any:
        """The nearest words by their embeddings, and how many examples these were learned from."""
        from harken.studio.inside import neighbours
        from harken.studio.runs import count_examples

        examples = count_examples(self.library.folder(model))
        return {**neighbours(self.library.open(model).model, word, side, count), "examples": examples}

    def beam(self, model: str, text: str, beam: int | None, length_penalty: float | None) -> Any:
        """The tree of the beam search."""
        from harken.studio.searching import beam_of

        translator = self.library.open(model, "beam").model
        return beam_of(translator, text, beam=beam, length_penalty=length_penalty)

    def input(self, model: str) -> Any:
        """The input that a model takes."""
        from harken.studio.jobs import describe_input

        return describe_input(self.library.open(model))

    def answer(self, model: str, text: str, options: dict[str, Any], file: list[str] | None) -> Any:
        """The answer of a model to a text, or to a file: its name and content in base64."""
        from harken.studio.jobs import answer

        given = None if file is None else (file[0], base64.b64decode(file[1]))
        return answer(self.library.open(model), text, given, **options)

    def claims(self) -> Any:
        """Every claim of the lab."""
        from harken.studio.laboratory import list_claims

        return {"claims": list_claims()}

    def explore(self, name: str, values: dict[str, Any], seed: int) -> Any:
        """The figure of a claim for chosen values."""
        from harken.studio.explorations import explore

        return explore(name, values, seed)

    def chapters(self) -> Any:
        """Every chapter of the course."""
        from harken.studio.learning import list_chapters

        return {"chapters": list_chapters()}

    def live(self, name: str, values: dict[str, Any], seed: int) -> Any:
        """A live figure of the course for chosen values."""
        from harken.studio.explorations import explore
        from harken.studio.live import LIVE

        return explore(name, values, seed, LIVE)

    def check_answer(self, name: str, text: str) -> Any:
        """The verdict on the answer of an exercise."""
        from harken.studio.learning import check_answer

        return check_answer(name, text)

    def run_chapter(self, number: int) -> Any:
        """Events with the outputs of a chapter's cells."""
        from harken.studio.learning import run_chapter

        run_chapter(number, self.emit)
        return {"done": 1}

    def experiment(self, name: str, seed: int, quick: bool) -> Any:
        """Events with the progress of an experiment, then its report."""
        from harken.studio.laboratory import run_claim

        return {"report": run_claim(name, seed, quick, self.emit)}

    def train_example(self) -> Any:
        """Events with the progress of training the studio's own recurrent model."""
        from harken.studio.example import train_example

        train_example(self.emit)
        return {"done": 1}


def main(library: Library) -> None:
    """Read tasks from stdin and write what they answer to stdout, until stdin ends."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    is_cancelled = False

    def write(kind: str, value: Any) -> None:
        out.write(f"{kind} {json.dumps(value, allow_nan=False)}\n")
        out.flush()

    def cancel(*signal_and_frame: Any) -> None:
        nonlocal is_cancelled
        is_cancelled = True

    signal.signal(signal.SIGUSR1, cancel)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its workers
    import harken.api  # noqa: F401  torch, before the first task

    write("ready", None)
    tasks = Tasks(library, lambda event: write("event", event), lambda: is_cancelled)
    for line in iter(sys.stdin.readline, ""):
        is_cancelled = False
        name, fields = json.loads(line)
        try:
            write("result", getattr(tasks, name)(**fields))
        except UserError as error:
            write("error", [400, str(error)])
        except Exception as error:
            print(describe_internal_error(error), file=sys.stderr, flush=True)
            write("error", [500, f"internal error: {type(error).__name__}"])


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    import_plugins(given.pop("plugins"))
    main(Library(**given))
