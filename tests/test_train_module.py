"""`harken.train` with a dict, with callbacks, and with a module of the user's own."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import harken
from harken.training import device
from harken.training.checkpoints import saved_settings

RECIPE: dict[str, Any] = {
    "task": "classify",
    "data": {"corpus": "opinions", "size": 60},
    "model": {"architecture": "filters", "embedding": 8, "kernels": [1, 2], "width": 8},
    "train": {"max_steps": 4, "validate_every": 2, "log_every": 2, "precision": "float32", "workers": 1},
}


class Sum(nn.Module):
    """Adds the numbers of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.output = harken.nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, values: Tensor) -> Tensor:
        return self.output(self.layer(values)[0][:, -1])[:, 0]


def squared_error(model: nn.Module, batch: Any) -> Tensor:
    values, totals = batch
    return (model(values) - totals).square().mean()


def numbers(count: int) -> tuple[Tensor, Tensor]:
    values = torch.rand(count, 4, 1, generator=torch.Generator().manual_seed(count))
    return values, values.sum((1, 2))


SETTINGS = {"max_steps": 60, "learning_rate": 0.02, "validate_every": 20, "log_every": 20, "checkpoint_every": 20}


def test_a_dict_is_a_recipe_and_callbacks_see_every_line(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    given = json.dumps(RECIPE)
    model = harken.train(RECIPE, tmp_path / "run", callbacks=[seen.append], progress=False)
    assert json.dumps(RECIPE) == given  # not changed
    assert type(model).__name__ == "Classifier"
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert seen == lines and [line["kind"] for line in seen] == ["train", "valid"] * 2


def test_a_callback_that_returns_true_ends_the_run(tmp_path: Path) -> None:
    changed = {**RECIPE, "train": {**RECIPE["train"], "max_steps": 400}}
    harken.train(changed, tmp_path / "run", callbacks=[lambda line: line["kind"] == "valid"], progress=False)
    steps = [json.loads(line)["step"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 2
    assert harken.load(tmp_path / "run", device="cpu").recipe.train.max_steps == 400


def test_errors_in_a_dict_name_the_key(tmp_path: Path) -> None:
    wrong = {**RECIPE, "model": {"architecture": "filters", "kernls": [1]}}
    with pytest.raises(harken.UserError, match=r"model\.kernls in the dict is not a key.*did you mean model\.kernels"):
        harken.train(wrong, tmp_path / "run")
    with pytest.raises(harken.UserError, match=r"loss= is for a torch\.nn\.Module"):
        harken.train(RECIPE, tmp_path / "run", loss=squared_error)


def test_a_module_learns_and_has_its_best_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, held_out = Sum(), numbers(50)
    before = squared_error(model, held_out).item()
    seen: list[dict[str, Any]] = []
    settings = {"settings": SETTINGS, "loss": squared_error, "progress": False}
    found = harken.train(
        model, tmp_path / "run", data=numbers(200), valid=held_out, callbacks=[seen.append], **settings
    )
    assert found is model and not model.training
    losses = [line["loss"] for line in seen if line["kind"] == "valid"]
    assert len(losses) == 3 and squared_error(model, held_out).item() == pytest.approx(min(losses), rel=1e-5)
    assert min(losses) < 0.2 * before
    other = Sum()
    harken.train(other, tmp_path / "run", data=numbers(200), valid=held_out, resume=True, **settings)  # is finished
    assert torch.equal(other.layer.weight_hh_l0, model.layer.weight_hh_l0)


def test_a_resumed_module_is_bit_equal(tmp_path: Path) -> None:
    models = []
    for name, budgets in (("whole", [40]), ("parts", [20, 40])):
        for budget in budgets:
            torch.manual_seed(0)
            models.append(Sum())
            settings = {**SETTINGS, "max_steps": budget}
            common: dict[str, Any] = {"data": numbers(100), "loss": squared_error, "settings": settings}
            harken.train(models[-1], tmp_path / name, resume=budget == 40 and name == "parts", progress=False, **common)
    assert torch.equal(models[0].output.weight, models[-1].output.weight)


def test_sums_with_counts_lists_of_examples_and_dicts(tmp_path: Path) -> None:
    values, totals = numbers(40)
    data = [{"values": value, "total": total} for value, total in zip(values, totals, strict=True)]

    def summed(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
        error = (model(batch["values"]) - batch["total"]).square()
        return error.sum(), len(error)

    weights = []
    for name, loss, given in (("mean", squared_error, (values, totals)), ("sum", summed, data)):
        torch.manual_seed(0)
        model = Sum()
        harken.train(model, tmp_path / name, data=given, loss=loss, settings={"max_steps": 5}, progress=False)  # type: ignore[arg-type]
        weights.append(model.output.weight.clone())
    assert torch.allclose(*weights, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": squared_error, "settings": {"max_steps": 1}}, "needs data="),
        ({"data": numbers(5), "settings": {"max_steps": 1}}, "needs loss="),
        ({"data": numbers(5), "loss": squared_error, "settings": {"max_stesp": 1}}, "did you mean max_steps"),
        ({"data": [], "loss": squared_error, "settings": {"max_steps": 1}}, "not empty"),
        ({"data": numbers(5), "loss": lambda model, batch: batch[0], "settings": {"max_steps": 1}}, "one number"),
    ],
)
def test_what_a_module_lacks_is_said(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(harken.UserError, match=words):
        harken.train(Sum(), tmp_path / "run", progress=False, **options)


def test_a_resumed_module_keeps_what_was_chosen_for_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(steps: int, **settings: Any) -> None:
        given = {**SETTINGS, "max_steps": steps, "precision": "auto", "workers": None, **settings}
        options = {"settings": given, "loss": squared_error, "progress": False, "resume": True}
        harken.train(Sum(), tmp_path / "run", data=numbers(40), **options)

    monkeypatch.setattr(device, "bfloat16_speedup", lambda: 2.0)
    monkeypatch.setattr(device, "choose_workers", lambda: 1)
    train(2)
    monkeypatch.setattr(device, "bfloat16_speedup", lambda: 1.0)
    monkeypatch.setattr(device, "choose_workers", lambda: 2)
    train(4)
    settings = saved_settings(tmp_path / "run")
    assert (settings["precision"], settings["workers"], settings["device"]) == ("bfloat16", 1, "cpu")
    with pytest.raises(harken.UserError, match=r"was trained with train\.workers = 1, not 2"):
        train(6, workers=2)
