"""Pictures of gates and gradients: right numbers at the right places, whole files, nothing fetched."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from harken.errors import UserError
from harken.inspection import FlowPicture, GatePicture, GateTrace, LayerGates, gates, gradient_flow
from harken.inspection.chart import Chart, Line, Panel
from harken.inspection.gate_picture import sheet_of
from harken.inspection.palette import LIGHT, css
from harken.inspection.words import columns
from harken.nn import GRU, LSTM, RNN

NASTY = ["</s>", "<b>&", "a\x1bword", "猫"]


@pytest.fixture(scope="module")
def flows() -> FlowPicture:
    torch.manual_seed(0)
    values = torch.randn(2, 12, 3)
    return FlowPicture(
        {kind.__name__: gradient_flow(kind(3, 6, batch_first=True), values) for kind in (RNN, GRU, LSTM)}
    )


@pytest.fixture(scope="module")
def gate_picture() -> GatePicture:
    torch.manual_seed(0)
    return gates(LSTM(3, 40, bidirectional=True, batch_first=True), torch.randn(1, 4, 3), words=NASTY).picture()


def test_a_chart_places_values_by_their_power_of_ten() -> None:
    chart = Chart("", "", "", [Panel("", [Line("", [100.0, 1.0, 0.01, 0.0])])])
    assert chart.decades == (-2, 2)
    assert [chart.height(value) for value in (100.0, 1.0, 0.01, 0.0, np.inf)] == [1.0, 0.5, 0.0, 0.0, 1.0]
    assert chart.distances() == [0, 1, 2, 3]
    assert Chart("", "", "", [Panel("", [Line("", [1.0] * 300)])]).distances() == [0, 50, 100, 150, 200, 250]
    assert Chart("", "", "", [Panel("", [Line("", [0.0])])]).decades == (0, 1)


def test_the_svg_of_gradients_has_a_dot_for_every_step(flows: FlowPicture) -> None:
    drawn = ElementTree.fromstring(flows.to_svg())
    circles = drawn.findall(".//{*}circle")
    assert len(circles) == 12 * 4  # h of three models and C of the LSTM
    heights = [float(circle.get("cy", "")) for circle in circles[:12]]
    curve = flows.flows["RNN"][0].curve()
    assert np.argsort(heights).tolist() == np.argsort(-curve).tolist()
    text = "".join(drawn.itertext())
    for name, flow in flows.flows.items():
        assert name in text and flow[0].verdict.short in text
    assert "prefers-color-scheme:dark" in text


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("color", [True, False])
def test_the_terminal_keeps_within_its_columns(
    flows: FlowPicture, gate_picture: GatePicture, width: int, color: bool
) -> None:
    for picture in (flows, gate_picture):
        drawn = re.sub(r"\x1b\[[0-9;]*m", "", picture.to_terminal(width, color))
        assert max(columns(line) for line in drawn.splitlines()) <= width
        assert ("\x1b[" in picture.to_terminal(width, color)) is color
    assert "vanishing" in flows.to_terminal(80, False)


def test_long_sentences_are_cut_into_parts() -> None:
    torch.manual_seed(0)
    trace = gates(GRU(2, 5, batch_first=True), torch.randn(1, 70, 2), words=[f"word{number}" for number in range(70)])
    drawn = trace.picture().to_terminal(80, False)
    assert max(map(len, drawn.splitlines())) <= 80
    assert drawn.count("update gate") == 3


def test_units_stand_in_one_order_and_the_liveliest_are_picked() -> None:
    forget = np.array([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]])
    cell = np.array([[0.0, 0.0, 0.0], [4.0, 0.1, -2.0]])
    hidden = np.zeros((2, 3))
    sheet = sheet_of(LayerGates("l", "LSTM", ["a", "b"], {"forget": forget, "hidden": hidden, "cell": cell}))
    assert [field.word for field in sheet.fields] == ["forget", "cell", "hidden"]
    keep, state, _ = sheet.fields
    assert keep.units.tolist() == state.units.tolist() == [1, 2, 0]
    assert keep.pick(2)[:, 0].tolist() == [0.5, 0.1]
    assert state.scale == 4.0
    assert state.pick(2)[:, 1].tolist() == [-0.5, 1.0]
    assert state.means().tolist() == pytest.approx([0, 6.1 / 3])


def test_a_projected_state_has_an_order_of_its_own() -> None:
    sheet = sheet_of(gates(LSTM(2, 6, proj_size=2, batch_first=True), torch.randn(1, 3, 2))[0])
    assert {field.word: len(field.pick(9)) for field in sheet.fields}["hidden"] == 2


def test_the_svg_of_gates_has_two_inks_and_every_word(gate_picture: GatePicture) -> None:
    drawn = ElementTree.fromstring(gate_picture.to_svg())
    kinds = {path.get("class") for path in drawn.findall(".//{*}path")}
    assert kinds == {"ink", "warm"}
    texts = [element.text for element in drawn.findall(".//{*}text[@transform]")]
    assert texts == ["</s>", "<b>&", "a�word", "猫"] * 2
    assert css(LIGHT.warm) in gate_picture.to_svg()


def test_pngs_are_pictures(flows: FlowPicture, gate_picture: GatePicture) -> None:
    for picture in (flows, gate_picture):
        content = picture.to_png()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000


class Tags(HTMLParser):
    """Every tag and where it points to."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.links += [str(value) for name, value in attributes if name in ("src", "href")]


def test_pages_are_complete_and_fetch_nothing(flows: FlowPicture, gate_picture: GatePicture) -> None:
    for picture in (flows, gate_picture):
        page = picture.to_html()
        tags = Tags()
        tags.feed(page)
        assert tags.links == []
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert flows.to_html().count("<svg") == 2  # states, and gates
    page = gate_picture.to_html()
    numbers = json.loads(re.findall(r'id="gates">(.*?)</script>', page, re.DOTALL)[0])
    assert numbers[1]["words"] == NASTY
    assert "&lt;b&gt;&amp;" in page and "<b>&" not in page  # words stay words
    field = numbers[0]["fields"][0]
    assert np.array(field["values"]).shape == (4 * 40,)
    wanted = gate_picture.sheets[0].fields[0].values
    assert np.allclose(np.array(field["values"]).reshape(40, 4) / 1000, wanted, atol=5e-4)


def test_saving_and_notebooks(flows: FlowPicture, gate_picture: GatePicture, tmp_path: Path) -> None:
    for ending, start in ((".html", b"<!doctype html>"), (".svg", b"<svg"), (".png", b"\x89PNG")):
        assert gate_picture.save(tmp_path / f"a{ending}").read_bytes().startswith(start)
    with pytest.raises(UserError, match=r"name the file .html, .svg or .png"):
        flows.save(tmp_path / "a.pdf")
    assert flows._repr_html_().startswith("<svg")
    one = flows.flows["LSTM"]
    assert one._repr_html_() == one.picture()._repr_html_()
    assert [panel.title for panel in one.picture("mine", {"other": flows.flows["RNN"]}).chart().panels] == [
        "mine",
        "other",
    ]


def test_a_layer_that_is_not_there() -> None:
    trace = GateTrace([LayerGates("layer 1", "RNN", ["a"], {"hidden": np.zeros((1, 2))})], "a")
    with pytest.raises(UserError, match="no layer 3; there are 0: layer 1"):
        trace.picture(3)
    assert "state h" in str(trace)
