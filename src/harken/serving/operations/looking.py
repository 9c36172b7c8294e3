"""Operations that several jobs share, to look inside a model: gates, weights over words, and facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harken.errors import UserError
from harken.inspection import gates as trace_gates
from harken.inspection.measures.tracing import is_traceable
from harken.serving.operations import operations_of

MAX_CHARACTERS = 1000  # of a text whose gates are shown


def gates(model: Any, items: Sequence[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """Every gate, candidate and state over the steps; with `units` each unit, else summaries."""
    _require_texts(model)
    results: list[Any] = []
    for item in items:
        try:
            if not item["text"].strip() or len(item["text"]) > MAX_CHARACTERS:
                raise UserError(f"gates are shown of a text with 1 to {MAX_CHARACTERS} characters")
            results.append(trace_gates(model, item["text"], target=item.get("target")).to_dict(bool(options["units"])))
        except UserError as error:
            results.append(error)
    return results


def attention(model: Any, items: Sequence[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
    """Weights over the words of a text: of the pooling where it attends, and of the gradient."""
    _require_texts(model)
    results: list[Any] = []
    for item in items:
        text = item["text"]
        try:
            if not isinstance(text, str) or not model.words(text):
                raise UserError("weights are shown of a text with words; give some")
            weights = {"gradient": model.saliency(text).round(5).tolist()}
            if model.recipe.head.pooling == "attention":
                weights["attention"] = model.attention(text).round(5).tolist()
            results.append({"words": model.words(text), "answer": model.answer_of(text), "weights": weights})
        except UserError as error:
            results.append(error)
    return results


def _require_texts(model: Any) -> None:
    """Models of signals would open a text as the path of a file, which no client may name."""
    if getattr(model.recipe.data, "kind", "text") != "text":
        raise UserError("this model reads signals; it shows nothing of a text")


def facts(predictor: Any) -> dict[str, Any]:
    """What `/v1/models` tells of a model."""
    network, recipe = predictor.model, predictor.recipe
    found: dict[str, Any] = {
        "task": recipe.task,
        "architecture": recipe.model.title,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "device": str(predictor.device),
        "recurrent": any(is_traceable(module) for module in network.modules()),
        "operations": operations_of(recipe.task),
    }
    if not found["recurrent"]:
        found["operations"] = [name for name in found["operations"] if name != "gates"]
    for name in ("layers", "heads", "width"):
        value = getattr(recipe.model, name, None)
        if isinstance(value, int):
            found[name] = value
    for name in ("classes", "tags"):
        if isinstance(getattr(predictor, name, None), list):
            found[name] = getattr(predictor, name)
    if hasattr(recipe, "search"):
        found["search"] = recipe.search.model_dump(exclude_defaults=False)
    if recipe.task == "translate":
        found["attends"] = _attends(predictor)
    return found


def _attends(predictor: Any) -> bool:
    try:
        return predictor.align("a", "a").attention is not None
    except UserError:
        return False


def prepare_kernels(predictor: Any) -> None:
    """Load the compiled decoder before it is needed; where it has to be compiled, beside the work.

    Nothing changes the weights of a model in a worker process, so that they need not be compared at every call.
    """
    from harken.kernels.weights import freeze
    from harken.search.compiled import prepare

    freeze(predictor.model)
    if predictor.recipe.task == "translate":
        prepare(predictor.model, wait=False)
