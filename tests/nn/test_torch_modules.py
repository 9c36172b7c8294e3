"""Torch's own checks of its modules (`torch.testing._internal.common_modules.module_db`), run against the classes of
`harken.nn` with the same names: what torch's class passes, ours passes.

Each check runs over all entries of torch's table in the slow tests, and over every so many of them otherwise. What does
not pass is listed in `docs/reference/torch-modules.md` with the reason; an entry listed there that passes fails.
`TransformerEncoder` is left out, since torch's cases pass it layers of `torch.nn`; `TransformerEncoderLayer` and
`Transformer` cover its parts.
"""

import copy
import io
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, vmap
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils._pytree import tree_leaves, tree_map_only

import harken.nn

QUIET = pytest.mark.filterwarnings(  # warnings of torch itself
    "ignore:enable_nested_tensor",
    "ignore:.*non-full backward hook.*",
    "ignore:RNN module",
    "ignore:There is a performance drop",
)

pytest.importorskip("expecttest", reason="torch's internal test helpers need expecttest")
with pytest.MonkeyPatch.context() as patch:  # its import would forbid other tests to set flags of backends
    patch.setattr(torch.backends, "disable_global_flags", lambda: None)
    common_modules = pytest.importorskip("torch.testing._internal.common_modules")

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "torch-modules.md"
NAMES = (
    "RNNCell", "LSTMCell", "GRUCell", "RNN", "LSTM", "GRU",
    "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer",
)  # fmt: skip
INFOS = {info.name.removeprefix("nn."): info for info in common_modules.module_db}


class Case:
    """One entry of torch's table: a module of torch, ours with the same weights, and the inputs of a call."""

    def __init__(self, info: Any, entry: Any, training: bool, dtype: torch.dtype) -> None:
        self.kwargs = {**entry.constructor_input.kwargs, "device": "cpu", "dtype": dtype}
        self.args, self.training = entry.constructor_input.args, training
        self.inputs, self.options = entry.forward_input.args, entry.forward_input.kwargs
        self.reference, self.module = self.make(info.module_cls), self.make(getattr(harken.nn, info.name[3:]))

    def __repr__(self) -> str:
        given = {**self.kwargs, **self.options, "inputs": self.inputs, "training": self.training}
        shapes = tree_map_only(Tensor, lambda leaf: tuple(leaf.shape), given)
        return f"{type(self.module).__name__}{self.args} {shapes}"

    def make(self, module_class: Callable[..., nn.Module]) -> nn.Module:
        torch.manual_seed(0)
        return module_class(*self.args, **self.kwargs).train(self.training)

    def call(self, module: Any, inputs: Any = None, options: Any = None) -> list[Tensor]:
        """The tensors that a call returns."""
        torch.manual_seed(1)
        outputs = module(*(self.inputs if inputs is None else inputs), **(self.options if options is None else options))
        return tensors(outputs)

    def function(self, module: nn.Module) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...]]:
        """The call as a function of the weights and inputs that have gradients, for gradcheck."""
        names = [name for name, _ in module.named_parameters()]
        leaves = [*module.parameters(), *(leaf for leaf in tensors(self.inputs) if leaf.is_floating_point())]
        values = tuple(leaf.detach().clone().requires_grad_() for leaf in leaves)

        def call(*values: Tensor) -> tuple[Tensor, ...]:
            replaced = iter(values[len(names) :])
            arguments = tree_map_only(
                Tensor, lambda leaf: next(replaced) if leaf.is_floating_point() else leaf, self.inputs
            )
            torch.manual_seed(1)
            named = dict(zip(names, values, strict=False))
            outputs = functional_call(module, named, arguments, self.options)
            return tuple(leaf for leaf in tensors(outputs) if leaf.requires_grad)

        return call, values


def tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def cases(name: str, every: int = 1, dtype: torch.dtype = torch.float64) -> Iterator[Case]:
    """Torch's entries for a module, in training and evaluation; with `every` a part of them."""
    info = INFOS[name]
    for training in (True, False) if info.train_and_eval_differ else (False,):
        entries = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        yield from (Case(info, entry, training, dtype) for entry in list(entries)[::every])


def assert_equal(values: list[Tensor], expected: list[Tensor], **tolerances: float) -> None:
    torch.testing.assert_close(values, expected, **tolerances)


def matrices(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Every matrix of a module: its owner and its name there."""
    for path, parameter in list(module.named_parameters()):
        if parameter.dim() == 2:
            owner, _, key = path.rpartition(".")
            yield module.get_submodule(owner), key


def check_outputs_and_gradients(case: Case) -> None:
    outputs, expected = case.call(case.module), case.call(case.reference)
    assert_equal(outputs, expected)
    for results in (outputs, expected):
        torch.stack([output.sum() for output in results]).sum().backward()
    reference = dict(case.reference.named_parameters())
    for key, parameter in case.module.named_parameters():
        torch.testing.assert_close(parameter.grad, reference[key].grad)


def check_first_derivatives(case: Case) -> None:
    assert gradcheck(*case.function(case.module), fast_mode=True)


def check_second_derivatives(case: Case) -> None:
    """Where torch's own module passes the same check."""
    try:
        passes = gradgradcheck(*case.function(case.reference), fast_mode=True, raise_exception=False)
    except RuntimeError as problem:
        assert "is not implemented" in str(problem)  # torch's fused attention
        passes = False
    if passes:
        assert gradgradcheck(*case.function(case.module), fast_mode=True)


def check_strides(case: Case) -> None:
    apart = tree_map_only(Tensor, lambda leaf: torch.stack((leaf, leaf), -1)[..., 0], case.inputs)
    assert_equal(case.call(case.module, apart), case.call(case.module))


def check_empty_batch(case: Case) -> None:
    """Without rows ours gives what torch's gives, where that gives anything."""
    is_cell = "Cell" in type(case.module).__name__
    if tensors(case.inputs)[0].dim() < (2 if is_cell else 3):
        return  # one sequence, without a batch
    axis = 0 if is_cell or getattr(case.module, "batch_first", False) else 1
    (x, *others) = case.inputs
    state_axis = 0 if is_cell else 1 if isinstance(case.module, harken.nn.Stack) else axis
    empty = tree_map_only(Tensor, lambda leaf: leaf.narrow(state_axis, 0, 0), others)
    inputs = (x.narrow(axis, 0, 0), *empty)
    assert_equal(case.call(case.module, inputs, {}), case.call(case.reference, inputs, {}))


def check_copies(case: Case) -> None:
    expected = case.call(case.module)
    assert_equal(case.call(copy.deepcopy(case.module)), expected)
    assert_equal(case.call(pickle.loads(pickle.dumps(case.module))), expected)
    loaded, file = case.make(type(case.module)), io.BytesIO()
    torch.save(case.module.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    assert_equal(case.call(loaded), expected)


def check_func(case: Case) -> None:
    """functional_call, grad and vmap of torch.func give what autograd and a loop give."""
    case.module.eval()
    weights = {name: parameter.detach() for name, parameter in case.module.named_parameters()}

    def loss(weights: dict[str, Tensor], inputs: Any) -> Tensor:
        outputs = tensors(functional_call(case.module, weights, inputs, case.options))
        return torch.stack([output.square().sum() for output in outputs]).sum()

    expected = torch.autograd.grad(loss(dict(case.module.named_parameters()), case.inputs), case.module.parameters())
    assert_equal(list(grad(loss)(weights, case.inputs).values()), list(expected))
    two = tree_map_only(Tensor, lambda leaf: torch.stack((leaf, leaf)).detach(), case.inputs)
    together = vmap(lambda inputs: loss(weights, inputs), randomness="same")(two)
    assert_equal([together], [loss(weights, case.inputs).expand(2)])


def check_export(case: Case) -> None:
    module = case.module.eval()
    program = torch.export.export(module, case.inputs, case.options)
    assert_equal(case.call(program.module()), case.call(module))


def check_compile(case: Case) -> None:
    """As one graph, with gradients."""
    torch._dynamo.reset()
    module = case.module.eval()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    outputs, expected = case.call(compiled), case.call(module)
    assert_equal(outputs, expected)
    both = [
        torch.autograd.grad(torch.stack([part.sum() for part in results]).sum(), list(module.parameters()))
        for results in (outputs, expected)
    ]
    assert_equal(list(both[0]), list(both[1]))


def check_autocast(case: Case) -> None:
    """bfloat16 on a CPU: torch's dtypes, and outputs and gradients near those of float32."""
    exact = case.call(case.module)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, expected = case.call(case.module), case.call(case.reference)
    assert [part.dtype for part in outputs] == [part.dtype for part in expected]
    assert_equal([part.float() for part in outputs], exact, atol=0.1, rtol=0.1)
    torch.stack([part.float().sum() for part in outputs]).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in case.module.parameters() if parameter.grad is not None)


class Doubled(nn.Module):
    """A parametrization: twice the weight."""

    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


REPARAMETRIZATIONS: dict[str, Callable[[nn.Module, str], object]] = {
    "own": lambda owner, key: parametrize.register_parametrization(owner, key, Doubled()),
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "prune": lambda owner, key: prune.l1_unstructured(owner, key, amount=0.5),
}


def check_reparametrizations(case: Case) -> None:
    """A parametrization or pruning of all matrices gives what torch's module gives with the same one."""
    for replace in REPARAMETRIZATIONS.values():
        modules = [case.make(type(module)).eval() for module in (case.module, case.reference)]
        for module in modules:
            torch.manual_seed(2)
            for owner, key in matrices(module):
                replace(owner, key)
            torch.manual_seed(3)
        ours, theirs = modules
        theirs.load_state_dict(ours.state_dict())
        assert_equal(case.call(ours), case.call(theirs))
        torch.stack([part.sum() for part in case.call(ours)]).sum().backward()
        assert all(parameter.grad is not None for _, parameter in ours.named_parameters() if parameter.dim() == 2)


def check_hooks(case: Case) -> None:
    """Forward hooks may replace inputs and outputs, backward hooks gradients, as with torch's module."""
    results = []
    for module in (case.module, case.reference):
        inputs = tree_map_only(Tensor, lambda leaf: leaf.detach().clone(), case.inputs)
        first = inputs[0].requires_grad_()
        names: list[str] = []

        def double(tree: Any) -> Any:
            return tree_map_only(Tensor, lambda leaf: 2 * leaf if leaf.is_floating_point() else leaf, tree)

        def note(name: str, value: Any, names: list[str] = names) -> Any:
            names.append(name)
            return value

        handles = [
            module.register_forward_pre_hook(lambda _, args: note("pre", (2 * args[0], *args[1:]))),
            module.register_forward_hook(lambda _, args, outputs: note("forward", double(outputs))),
            module.register_full_backward_hook(lambda _, args, gradients: note("backward", double(args))),
        ]
        outputs = case.call(module, inputs)
        torch.stack([part.sum() for part in outputs if part.requires_grad]).sum().backward()
        for handle in handles:
            handle.remove()
        results.append([*outputs, first.grad])
        assert names == ["pre", "forward", "backward"]
    assert_equal(*results)


def check_meta_and_dtype(case: Case) -> None:
    assert {parameter.dtype for parameter in case.module.float().parameters()} == {torch.float32}
    case.kwargs = {**case.kwargs, "device": "meta"}
    assert all(parameter.is_meta for parameter in case.make(type(case.module)).parameters())


# each check, and of how many entries it takes one in `make test`
CHECKS: dict[Callable[[Case], None], int] = {
    check_outputs_and_gradients: 1,
    check_first_derivatives: 16,
    check_second_derivatives: 16,
    check_strides: 8,
    check_empty_batch: 8,
    check_copies: 8,
    check_func: 16,
    check_export: 64,
    check_compile: 64,
    check_autocast: 8,
    check_reparametrizations: 32,
    check_hooks: 8,
    check_meta_and_dtype: 16,
}


def listed() -> dict[tuple[str, str], re.Pattern[str]]:
    """(class, check) -> the entries that do not pass, from the page."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| `(.+?)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {(name, check): re.compile(pattern) for name, check, pattern in rows}


def run_check(name: str, check: Callable[[Case], None], every: int) -> None:
    failing = listed().get((name, check.__name__.removeprefix("check_")))
    for case in cases(name, every, torch.float32 if check is check_autocast else torch.float64):
        entry = repr(case)
        if failing is None or not failing.search(entry):
            try:
                check(case)
            except Exception as problem:
                problem.add_note(entry)
                raise
        else:
            with pytest.raises(Exception):  # noqa: B017
                check(case)


def few(name: str, every: int) -> int:
    """Cells and GRU have few entries."""
    return max(1, every // 8) if "Cell" in name else max(1, every // 2) if name == "GRU" else every


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", NAMES)
@QUIET
def test_passes_torchs_check(name: str, check: Callable[[Case], None]) -> None:
    run_check(name, check, few(name, CHECKS[check]))


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", NAMES)
@QUIET
def test_passes_torchs_check_with_all_entries(name: str, check: Callable[[Case], None]) -> None:
    run_check(name, check, 8 if check in (check_export, check_compile) else 1)


def test_the_page_names_classes_and_checks() -> None:
    known = {check.__name__.removeprefix("check_") for check in CHECKS}
    assert all(name in NAMES and check in known for name, check in listed())


def test_an_entry_of_the_page_that_passes_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("| `RNNCell` | strides | `bias` | it passes |\n")
    monkeypatch.setattr(f"{__name__}.PAGE", page)
    assert listed()["RNNCell", "strides"].pattern == "bias"
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        run_check("RNNCell", check_strides, 1)
