"""Torch's own checks of its modules (`torch.testing._internal.common_modules.module_db`), run against the classes of
`harken.nn` with the same names: what torch's class passes, ours passes.

`TransformerEncoder` is left out, since torch's cases pass it layers of `torch.nn`; `TransformerEncoderLayer` and
`Transformer` cover its parts.
"""

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call
from torch.utils._pytree import tree_leaves, tree_map

import harken.nn

pytest.importorskip("expecttest", reason="torch's internal test helpers need expecttest")
with pytest.MonkeyPatch.context() as patch:  # its import would forbid other tests to set flags of backends
    patch.setattr(torch.backends, "disable_global_flags", lambda: None)
    common_modules = pytest.importorskip("torch.testing._internal.common_modules")

NAMES = (
    "RNNCell", "LSTMCell", "GRUCell", "RNN", "LSTM", "GRU",
    "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer",
)  # fmt: skip
INFOS = {info.name.removeprefix("nn."): info for info in common_modules.module_db}
FACTORY = {"device": "cpu", "dtype": torch.float64}
EVERY = {
    "RNN": 8,
    "LSTM": 8,
    "GRU": 4,
    "Transformer": 8,
    "TransformerDecoderLayer": 8,
    "TransformerEncoderLayer": 4,
    "MultiheadAttention": 8,
}


class Case:
    """One entry of torch's table: a module of torch, ours with the same weights, and the inputs of a call."""

    def __init__(self, info: Any, entry: Any, training: bool) -> None:
        self.kwargs = {**entry.constructor_input.kwargs, **FACTORY}
        self.args, self.training = entry.constructor_input.args, training
        self.inputs, self.options = entry.forward_input.args, entry.forward_input.kwargs
        self.reference, self.module = self.make(info.module_cls), self.make(getattr(harken.nn, info.name[3:]))

    def make(self, module_class: Callable[..., nn.Module]) -> nn.Module:
        torch.manual_seed(0)
        return module_class(*self.args, **self.kwargs).train(self.training)

    def call(self, module: nn.Module, inputs: Any = None) -> list[Tensor]:
        """The tensors that a call returns."""
        torch.manual_seed(1)
        outputs = module(*(self.inputs if inputs is None else inputs), **self.options)
        return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]

    def function(self, module: nn.Module) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...]]:
        """The call as a function of the inputs and weights that have gradients, for gradcheck."""
        names = [name for name, _ in module.named_parameters()]
        weights = tuple(parameter.detach().clone().requires_grad_() for parameter in module.parameters())
        leaves = [leaf for leaf in tree_leaves(self.inputs) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        inputs = tuple(leaf.detach().clone().requires_grad_() for leaf in leaves)

        def call(*values: Tensor) -> tuple[Tensor, ...]:
            replaced = iter(values[len(weights) :])
            arguments = tree_map(
                lambda leaf: next(replaced) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf,
                self.inputs,
            )
            torch.manual_seed(1)
            named = dict(zip(names, values, strict=False))
            outputs = functional_call(module, named, arguments, self.options)
            return tuple(leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor) and leaf.requires_grad)

        return call, (*weights, *inputs)


def cases(name: str, every: int = 1) -> Iterator[Case]:
    """Torch's entries for a module, in training and evaluation; with `every` a part of them."""
    info = INFOS[name]
    for training in (True, False) if info.train_and_eval_differ else (False,):
        entries = info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
        )
        yield from (Case(info, entry, training) for entry in list(entries)[::every])


def assert_equal(values: list[Tensor], expected: list[Tensor]) -> None:
    torch.testing.assert_close(values, expected)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_gradients_are_torchs(name: str) -> None:
    for case in cases(name):
        outputs, expected = case.call(case.module), case.call(case.reference)
        assert_equal(outputs, expected)
        sum(output.sum() for output in outputs).backward()  # type: ignore[union-attr]
        sum(output.sum() for output in expected).backward()  # type: ignore[union-attr]
        reference = dict(case.reference.named_parameters())
        for key, parameter in case.module.named_parameters():
            torch.testing.assert_close(parameter.grad, reference[key].grad)


@pytest.mark.parametrize("name", NAMES)
def test_first_and_second_derivatives_are_right(name: str) -> None:
    """Numerically, where torch's own module passes the same check."""
    checked = 0
    for case in cases(name, EVERY.get(name, 2)):
        function, values = case.function(case.module)
        assert gradcheck(function, values, fast_mode=True)
        if has_second_derivatives(*case.function(case.reference)):
            assert gradgradcheck(function, values, fast_mode=True)
            checked += 1
    assert checked > 0 or "Transformer" in name  # torch's fused attention cannot be differentiated twice


def has_second_derivatives(function: Callable[..., Any], values: tuple[Tensor, ...]) -> bool:
    try:
        return bool(gradgradcheck(function, values, fast_mode=True, raise_exception=False))
    except RuntimeError as problem:
        assert "is not implemented" in str(problem)
        return False


@pytest.mark.parametrize("name", NAMES)
def test_strides_do_not_matter(name: str) -> None:
    for case in cases(name, EVERY.get(name, 2)):
        apart = tree_map(
            lambda leaf: torch.stack((leaf, leaf), -1)[..., 0] if isinstance(leaf, Tensor) else leaf, case.inputs
        )
        assert_equal(case.call(case.module, apart), case.call(case.module))


@pytest.mark.parametrize("name", NAMES)
def test_copies_compute_the_same(name: str) -> None:
    for case in cases(name, EVERY.get(name, 2)):
        expected = case.call(case.module)
        assert_equal(case.call(copy.deepcopy(case.module)), expected)
        assert_equal(case.call(pickle.loads(pickle.dumps(case.module))), expected)
        loaded, file = case.make(type(case.module)), io.BytesIO()
        torch.save(case.module.state_dict(), file)
        file.seek(0)
        loaded.load_state_dict(torch.load(file, weights_only=True))
        assert_equal(case.call(loaded), expected)


@pytest.mark.parametrize("name", NAMES)
def test_forward_hooks_are_called_and_may_replace_the_output(name: str) -> None:
    for case in cases(name, EVERY.get(name, 2)):
        expected = case.call(case.module)
        calls: list[nn.Module] = []
        with case.module.register_forward_hook(
            lambda module, inputs, outputs, calls=calls: (
                calls.append(module),
                tree_map(lambda leaf: 2 * leaf if isinstance(leaf, Tensor) else leaf, outputs),
            )[1]
        ):
            assert_equal(case.call(case.module), [2 * value for value in expected])
        assert calls == [case.module]


@pytest.mark.parametrize("name", NAMES)
def test_parametrized_and_pruned_weights_are_used(name: str) -> None:
    """A parametrization or pruning of any matrix gives what torch's module gives with the same one."""
    from torch.nn.utils import parametrize, prune

    class Doubled(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

    def owners(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
        for path, parameter in list(module.named_parameters()):
            if parameter.dim() == 2:
                owner, _, key = path.rpartition(".")
                yield module.get_submodule(owner), key

    for case in cases(name, 4 * EVERY.get(name, 2)):
        if case.training:
            continue
        for module in (case.module, case.reference):
            for owner, key in owners(module):
                parametrize.register_parametrization(owner, key, Doubled())
        assert_equal(case.call(case.module), case.call(case.reference))
    for case in cases(name, 4 * EVERY.get(name, 2)):
        if case.training:
            continue
        for module in (case.module, case.reference):
            for owner, key in owners(module):
                prune.l1_unstructured(owner, key, amount=0.5)
        assert_equal(case.call(case.module), case.call(case.reference))


@pytest.mark.parametrize("name", NAMES)
def test_meta_and_dtype_arguments(name: str) -> None:
    for case in cases(name, 8):
        small = case.module.float()
        assert {parameter.dtype for parameter in small.parameters()} == {torch.float32}
        case.kwargs = {**case.kwargs, "device": "meta"}
        assert all(parameter.is_meta for parameter in case.make(type(case.module)).parameters())


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "MultiheadAttention", "TransformerEncoderLayer"])
def test_exports_as_one_graph(name: str) -> None:
    case = next(case for case in cases(name) if not case.training and not isinstance(case.inputs[0], tuple))
    program = torch.export.export(case.module, case.inputs, case.options)
    assert_equal(case.call(program.module()), case.call(case.module))
