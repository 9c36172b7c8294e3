"""A trace holds the numbers of the equations, and gradients of every step."""

import pytest
import torch

from harken.nn import GRU, LSTM, RNN

VALUES = torch.randn(3, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([3, 5, 1])


@pytest.mark.parametrize("options", [{}, {"coupled": True}, {"peephole": "diagonal"}, {"peephole": "full"}])
def test_an_lstms_gates_make_its_cells(options: dict) -> None:
    layer = LSTM(2, 4, 2, bidirectional=True, dtype=torch.float64, batch_first=True, **options)
    output, (hidden, cell), trace = layer(VALUES, lengths=LENGTHS, trace=True)
    assert torch.allclose(output, layer(VALUES, lengths=LENGTHS)[0], rtol=0, atol=1e-12)
    assert trace.names == ("input", "forget", "candidate", "output", "hidden", "cell")
    assert (len(trace), len(trace.layers[0])) == (2, 2)
    assert torch.equal(torch.cat((trace[1].hidden, trace[1, 1].hidden), -1), output)
    for way in (0, 1):
        seen = trace[0, way]
        assert seen.forget.shape == (3, 5, 4)
        before = torch.zeros(3, 5, 4, dtype=torch.float64)
        if way == 0:
            before[:, 1:] = seen.cell[:, :-1]
        else:
            before[:, :-1] = seen.cell[:, 1:]
        running = (torch.arange(5) < LENGTHS[:, None])[..., None]
        wanted = (seen.forget * before + seen.input * seen.candidate) * running
        assert torch.allclose(seen.cell, wanted, rtol=0, atol=1e-12)
        assert torch.allclose(seen.hidden, seen.output * torch.tanh(seen.cell), rtol=0, atol=1e-12)
        if options.get("coupled"):
            assert torch.allclose((seen.input + seen.forget)[running.expand(3, 5, 4)], torch.ones(()).double())
    assert torch.equal(cell[0], torch.stack([trace[0].cell[row, length - 1] for row, length in enumerate(LENGTHS)]))
    assert torch.equal(hidden[1], trace[0, 1].hidden[:, 0])


@pytest.mark.parametrize("reset", ["after", "before"])
def test_a_grus_update_means_what_its_form_says(reset: str) -> None:
    _, _, trace = GRU(2, 4, reset=reset, dtype=torch.float64, batch_first=True)(VALUES, trace=True)
    seen = trace[0]
    before = torch.cat((torch.zeros(3, 1, 4, dtype=torch.float64), seen.hidden[:, :-1]), 1)
    new = seen.update if reset == "before" else 1 - seen.update
    assert torch.allclose(seen.hidden, (1 - new) * before + new * seen.candidate, rtol=0, atol=1e-12)
    assert trace.names == ("reset", "update", "candidate", "hidden")


def test_gradients_of_every_step() -> None:
    """dL/dh_t of h_t = tanh(w h_{t-1} + x_t) with L = h_T is the product of the later steps' derivatives."""
    layer = RNN(1, 1, bias=False, dtype=torch.float64, batch_first=True)
    torch.nn.init.constant_(layer.cells[0].weight_hh, 0.8)
    output, _, trace = layer(torch.randn(1, 6, 1, dtype=torch.float64), trace=True)
    trace.retain_grad()
    output[0, -1].sum().backward()
    derivatives = 0.8 * (1 - output[0, 1:, 0] ** 2)
    wanted = [derivatives[time:].prod().item() for time in range(6)]
    assert trace[0].gradient("hidden")[0, :, 0].tolist() == pytest.approx(wanted, abs=1e-12)


def test_gradients_reach_gates_and_stop_at_the_end_of_a_row() -> None:
    layer = LSTM(2, 4, dtype=torch.float64, batch_first=True)
    output, _, trace = layer(VALUES, lengths=LENGTHS, trace=True)
    trace.retain_grad()
    output[0].sum().backward()
    forget = trace[0].gradient("forget")
    assert (forget[0, 1:3] != 0).all()
    assert (forget[0, 3:] == 0).all()
    assert (forget[1:] == 0).all()


def test_what_a_cell_lacks_is_named() -> None:
    _, _, trace = RNN(2, 4, dtype=torch.float64, batch_first=True)(VALUES, trace=True)
    with pytest.raises(KeyError, match="has no 'forget'; it has hidden"):
        _ = trace[0].forget
    with pytest.raises(ValueError, match="retain_grad"):
        trace[0].gradient("hidden")
