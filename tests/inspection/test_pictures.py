"""What each kind of picture says: its finding, its numbers, and what it refuses."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from harken.errors import UserError
from harken.inspection import (
    AlignmentMap,
    AttentionGrid,
    ConfusionMatrix,
    GateTrace,
    HeatMaps,
    HopMap,
    LayerGates,
    Picture,
    gates,
)
from harken.inspection.figure import Heat, Images, Lines, Raster
from harken.inspection.figure.paper.media import veiled
from harken.inspection.pictures.drawings import CaptionMap, InkPicture
from harken.inspection.pictures.fan import FanPicture, date_ticks, season_of
from harken.inspection.pictures.gates import UNITS, layer_figure, telling_units
from harken.inspection.pictures.sequences import SignalWeights, SpectrogramPicture, Surprisal
from harken.nn import GRU, LSTM

Pictures = Callable[[str], Picture]


def test_an_alignment_states_the_pair_and_its_strongest_link() -> None:
    picture = AlignmentMap(["the", "cat"], ["le", "chat"], [[0.9, 0.1], [0.2, 0.8]])
    [figure] = picture.figures()
    assert figure.title == "the cat → le chat" and figure.note == "Strongest link: le ← the, 0.90."
    assert picture.to_terminal(40, False).splitlines()[0].split() == ["the", "cat"]  # no title where none is given


def test_weights_that_are_none_are_refused() -> None:
    with pytest.raises(UserError, match="are 1 x 2 but the words ask for 2 x 1"):
        AlignmentMap(["a"], ["b", "c"], [[0.5, 0.5]])
    with pytest.raises(UserError, match=r"at \(0, 1\) is not a finite number"):
        AlignmentMap(["a", "b"], ["c"], [[0.5, float("nan")]])
    with pytest.raises(UserError, match="weight is 2; weights lie between 0 and 1"):
        AlignmentMap(["a"], ["b"], [[2.0]])


@pytest.mark.parametrize(("source", "target"), [([], []), (["a"], []), ([], ["b"])])
def test_empty_sentences_can_be_drawn(source: list[str], target: list[str]) -> None:
    picture = AlignmentMap(source, target, np.zeros((len(target), len(source))))
    assert picture.to_png(30) and picture.to_html() and picture.to_svg() and picture.to_terminal(40, False) is not None


LAYERS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4, 5))  # (L, N, T, S)
GRID = AttentionGrid(LAYERS, ["a", "b￭", "</s>"], ["u", "v", "w", "x", "</s>"], title="five by three")


def test_a_grid_shows_self_attention_beside_cross_attention() -> None:
    encoder, decoder = np.full((1, 2, 3, 3), 1 / 3), np.tril(np.ones((2, 4, 5, 5))) / np.arange(1, 6)[:, None]
    grid = AttentionGrid(LAYERS, ["▁a", "b", "</s>"], ["u", "v", "w", "x", "</s>"], encoder=encoder, decoder=decoder)
    assert grid.source_tokens == ["a", "-b", "</s>"]
    names = [figure.name for figure in grid.figures()]
    assert len(names) == (2 * 5 + 1) + (1 * 3 + 1) + (2 * 5 + 1) and "encoder self-attention, layer 1 / head 2" in names
    one = grid.map(1, 0, "decoder self-attention")
    assert one.rows == one.columns == ["<s>", "u", "v", "w", "x"] and one.weights[1].tolist() == [0.5, 0.5, 0, 0, 0]
    panel = next(figure.panels[0] for figure in grid.figures() if figure.name.startswith("decoder"))
    assert (panel.x_label, panel.y_label) == ("target piece", "target piece")
    with pytest.raises(UserError, match="There is no decoder self-attention; the model has cross-attention"):
        GRID.map(kind="decoder self-attention")


def test_a_grid_has_a_map_for_every_layer_and_head_and_their_means() -> None:
    np.testing.assert_allclose(GRID.map(1, 2).weights, LAYERS[1, 2])
    np.testing.assert_allclose(GRID.map(layer=1).weights, LAYERS[1].mean(0))
    np.testing.assert_allclose(GRID.map().weights, LAYERS.mean((0, 1)))
    assert GRID.map(1, 2).title == "Cross-attention: layer 2, head 3" and GRID.source_tokens == ["a", "b", "</s>"]
    page = GRID.to_html()
    names = re.findall(r'<button [^>]*aria-label="([^"]*)"', page)
    assert len(names) == len(set(names)) == 2 * 4 + 2 + 1 and names[0] == "cross-attention, all, mean"
    chosen = page.split('<section data-view="cross-attention, layer 2 / head 3"', 1)[1].split("</section>", 1)[0]
    weights = [float(value) for value in re.findall(r"--w:([\d.]+)", chosen)]
    np.testing.assert_allclose(weights, LAYERS[1, 2].ravel(), atol=0.00051)
    assert "http" not in page and "&lt;/s&gt;" in page
    frame = GRID._repr_html_()
    assert "Each row sums to 1" in chosen
    assert frame.startswith("<iframe srcdoc=") and frame.count("<") == 2


def test_a_grid_refuses_what_it_has_not(tmp_path: object) -> None:
    with pytest.raises(UserError, match=r"name the file \.html"):
        GRID.save(f"{tmp_path}/grid.png")
    with pytest.raises(UserError, match="There is no head 4; the model has 4"):
        GRID.map(0, 4)
    with pytest.raises(UserError, match=r"shape \(2, 2\); pass layers x heads"):
        AttentionGrid(np.eye(2), ["a", "b"], ["c", "d"])


def test_gates_show_the_units_that_vary_most_in_one_order_and_scale() -> None:
    forget = np.array([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]])
    cell = np.array([[0.0, 0.0, 0.0], [4.0, 0.1, -2.0]])
    layer = LayerGates("l", "LSTM", ["a", "b"], {"forget": forget, "hidden": np.zeros((2, 3)), "cell": cell})
    assert telling_units(layer, 2).tolist() == [2, 0]  # unit 1 hardly moves; unit 2 keeps more than unit 0
    figure = layer_figure(layer, 2)
    assert [panel.title for panel in figure.panels] == ["forget gate", "cell state C", "hidden state h"]
    keep, state, hidden = (panel for panel in figure.panels if isinstance(panel, Heat))
    assert keep.rows == state.rows == ["unit 2", "unit 0"] and keep.limits == (0.0, 1.0)
    assert state.limits == (-4.0, 4.0) and hidden.limits == (-1.0, 1.0)
    assert state.values == [[0.0, -2.0], [0.0, 4.0]]
    assert "the 2 of 3 units" in figure.title and figure.note.startswith("Over all units: forget gate mean 0.50")


def test_a_projected_state_has_units_of_its_own() -> None:
    figure = layer_figure(gates(LSTM(2, 6, batch_first=True, proj_size=2), torch.randn(1, 3, 2))[0], UNITS)
    rows = {panel.title: len(panel.rows) for panel in figure.panels if isinstance(panel, Heat)}
    assert rows["hidden state h"] == 2 and rows["forget gate"] == 6


def test_gates_of_a_layer_that_is_not_there() -> None:
    trace = GateTrace([LayerGates("layer 1", "RNN", ["a"], {"hidden": np.zeros((1, 2))})], "a")
    with pytest.raises(UserError, match="no layer 3; there are 0: layer 1"):
        trace.picture(3)
    assert "hidden state h" in str(trace)


def test_long_sentences_are_cut_into_parts() -> None:
    torch.manual_seed(0)
    trace = gates(GRU(2, 5, batch_first=True), torch.randn(1, 70, 2), words=[f"word{number}" for number in range(70)])
    drawn = trace.picture().to_terminal(80, False).splitlines()
    assert max(map(len, drawn)) <= 80 and sum(line.startswith("unit ") for line in drawn) == 2 * 5 * 4


def test_gradients_of_all_networks_share_one_set_of_axes(picture_of: Pictures) -> None:
    picture = picture_of("flow")
    [figure] = picture.figures()
    [panel] = figure.panels  # rows of different lengths are counted in another: see test_gradient_flow
    assert isinstance(panel, Lines) and panel.log_y
    assert [series.label for series in panel.series] == ["RNN, h", "GRU, h", "LSTM, C", "LSTM, h"]
    assert [series.colour for series in panel.series] == [0, 1, 2, 2]
    assert figure.title.startswith("Gradient by distance to the loss. RNN: ")
    page = picture.to_html()
    assert page.count("<svg") == 2 and "max σ(J)" in page  # states, and gates
    assert "vanishing" in picture.to_terminal(80, False)


def test_a_forecast_shows_three_seasons_dates_and_the_actual_values(picture_of: Pictures) -> None:
    picture = picture_of("fan")
    assert isinstance(picture, FanPicture) and picture.season == 12 and picture.shown == 36
    [figure] = picture.figures()
    [panel] = figure.panels
    assert isinstance(panel, Lines)
    assert [series.label for series in panel.series] == ["history", "forecast (median)", "actual"]
    assert len(panel.series[0].y) == 36 and panel.series[0].x[-1] == 0 and panel.series[1].x[0] == 1
    assert [name for _, name in panel.x_ticks] == ["2022", "2023", "2024"]
    assert figure.note == "The actual values lie within the 0.1 to 0.9 quantiles at 12 of 12 steps."
    assert panel.shade is not None and len(panel.shade) == 36


def test_seasons_and_ticks_come_from_dates() -> None:
    assert season_of([f"2024-01-{day:02}" for day in range(1, 29)]) == 7
    assert season_of([f"2024-01-01 {hour:02}:00" for hour in range(24)]) == 24
    assert season_of(["first", "second"]) == 0
    ticks = date_ticks([f"2024-01-{day:02}" for day in range(1, 7)], -5)
    assert ticks[0] == (-5.0, "1 Jan 2024") and len(ticks) == 6
    flat = FanPicture("", np.array([2.0, 2.0]), [0.5], np.array([[2.0]]))
    assert flat.bands == [] and "▲" in flat.to_terminal(40, color=False)


def test_a_spectrogram_has_rows_for_the_symbols_said_and_the_blank(picture_of: Pictures) -> None:
    picture = picture_of("spectrogram")
    sound, symbols = picture.figures()[0].panels
    assert isinstance(sound, Raster) and isinstance(symbols, Raster)
    assert list(symbols.rows) == ["b", "<b>&\x1b", "–"] and sound.x_limits == symbols.x_limits == (0.0, 1.0)
    assert symbols.values[0].tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    assert sound.values.argmax(0).tolist() == [column // 5 for column in range(100)]
    drawn = picture.to_terminal(width=43, color=False).splitlines()
    row = next(line for line in drawn if line.startswith("b "))
    full = [place for place, sign in enumerate(row[6:]) if sign == "█"]  # 37 columns for a second
    assert full == [7, 8, 9, 10, 11, 29, 30, 31, 32, 33]
    assert "0.50 s" in picture.to_html()
    with pytest.raises(UserError, match="do not fit 1 names"):
        SpectrogramPicture(np.zeros((3, 3)), np.zeros((2, 3)), ["–"], 0.01, 0.03, [], "x")


def test_surprisal_names_the_token_that_was_expected_least() -> None:
    picture = Surprisal(["a", "b"], [1.0, 4.0])
    assert picture.heading == "Surprisal: “b” was expected least (4.0 nats)"
    lines = picture.to_terminal(width=40, color=False).splitlines()
    assert [line.count("█") for line in lines[:2]] == [7, 31] and " ".join(lines[2:]).endswith(
        "Mean 2.50 nats, perplexity 12.18"
    )
    assert "b: 4.000 nats, p = 0.0183" in picture.to_svg()
    with pytest.raises(UserError, match="2 tokens and 1 numbers"):
        Surprisal(["a", "b"], [1.0])
    with pytest.raises(UserError, match="finite number"):
        Surprisal(["a"], [float("inf")])


CROSS = [np.array([[0.0, 2.0], [4.0, 2.0]]), np.array([[2.0, 0.0], [2.0, 4.0]])]


def test_ink_is_a_path_for_each_stroke_at_one_scale() -> None:
    text = InkPicture([CROSS, [stroke * 2 for stroke in CROSS]], ["small", "large"]).to_svg()
    paths = re.findall(r'<path d="M ([\d.]+) ([\d.]+) \nL ([\d.]+) ([\d.]+) \n"[^>]*stroke-linecap: round', text)
    wide = [float(path[2]) - float(path[0]) for path in paths]
    assert len(paths) == 4 and wide[2] == pytest.approx(2 * wide[0], rel=1e-3)
    assert float(paths[1][3]) > float(paths[1][1])  # y downwards
    lines = InkPicture([CROSS, CROSS[:1]], ["cross", ""]).to_terminal(width=5).split("\n")
    assert lines == ["  ⡇", "⠉⠉⡏⠉⠉", "  ⠃", "cross", "", "⠉⠉⠉⠉⠉"]
    with pytest.raises(UserError, match="2 captions do not fit 1 drawings"):
        InkPicture([CROSS], ["a", "b"])
    with pytest.raises(UserError, match="not a finite number"):
        InkPicture([[np.array([[0.0, np.nan]])]])


def test_a_signal_is_drawn_with_its_weights() -> None:
    picture = SignalWeights(np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]]), [0.0, 0.5, 1.0], "up", "Attention")
    lines = picture.to_terminal(80, False).splitlines()
    assert lines[1] == "channel 1  ▁▅█" and lines[2] == "channel 2  ▅▅▅" and lines[3] == "weights    ·▒█"
    assert "frame 2: 0.500" in picture.to_svg()
    with pytest.raises(UserError, match="weights are 2 but"):
        SignalWeights(np.ones((3, 1)), [0.5, 0.5], "up", "Attention")
    with pytest.raises(UserError, match="at least one frame"):
        SignalWeights(np.ones((0, 1)), [], "up", "Attention")


def test_a_caption_veils_what_was_not_looked_at(picture_of: Pictures) -> None:
    panel = picture_of("caption").figures()[1].panels[0]
    assert isinstance(panel, Images)
    assert panel.strengths()[:, 0, 1].tolist() == [1.0, 1.0, 0.0]
    white = np.full((4, 4, 3), 200, np.uint8)
    veil = veiled(white, np.array([[1.0, 0.5], [0.0, 0.0]]))
    assert veil[0, 0, 0] == 200 and veil[0, 3, 0] == 122 and veil[3, 3, 0] == 44
    drawn = picture_of("caption").to_terminal(width=80, color=False).splitlines()
    assert drawn[0] == "Worst captions" and "████  ··██  ····" in drawn and "████  ····  ██··" in drawn
    assert "dot: 0.600" in picture_of("caption").to_svg()
    with pytest.raises(UserError, match="pass words x rows x columns"):
        CaptionMap(white, ["a"], np.zeros((1, 4)))
    with pytest.raises(UserError, match="ask for 2 x 2 x 2"):
        CaptionMap(white, ["a", "b"], np.zeros((1, 2, 2)))


def test_hops_mark_the_facts_an_answer_needs() -> None:
    picture = HopMap(["Mary went.", "Bill ran."], [[0.9, 0.1], [0.2, 0.8]], "Where is Mary?", "hall", needed=[1])
    lines = picture.to_terminal(width=60, color=False).splitlines()
    assert lines[0] == "Where is Mary? → hall" and lines[1].split() == ["hop", "1", "hop", "2"]
    assert lines[2].startswith("  Mary went.  █ .90") and lines[3].startswith("● Bill ran.")
    assert lines[-2] == "● needed for the answer"
    unknown = HopMap(["Mary went."], [[1.0]], "Where is Mary?", "hall").to_svg()
    assert "●" not in unknown and "needed" not in unknown
    with pytest.raises(UserError, match="1 x 2 but the words ask for 1 x 1"):
        HopMap(["one"], [[0.5, 0.5]], "Who?", "me")


def test_confusion_is_a_share_of_the_true_label() -> None:
    picture = ConfusionMatrix([[9, 1, 0], [2, 8, 0], [0, 0, 0]], ["no", "yes", "never"])
    assert picture.shares.tolist() == [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 0.0]]
    assert picture.title.startswith("Confusion: 17 of 20 right")
    with pytest.raises(UserError, match="give a square"):
        ConfusionMatrix([[1, 2]], ["a", "b"])


def test_heat_maps_stand_one_below_the_other(picture_of: Pictures) -> None:
    text = picture_of("heat_maps").to_terminal(width=60, color=False)
    assert text.index("Tags") < text.index("Next") and ".25" in text and ".88" in text
    with pytest.raises(UserError, match="nothing to draw"):
        HeatMaps([])
