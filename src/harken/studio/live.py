"""Live figures of the course: small networks of `harken.nn` that the reader steers.

Each is an `Exploration` as those of the lab, which the course shows too. A network that has to be trained first learns
for a few seconds from generated text, once in a worker.
"""

from __future__ import annotations

import random
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from harken.data.synthetic.phrasebook import load_phrasebook
from harken.data.synthetic.two_senses import sentences as sentences_of_two_senses
from harken.inspection.figure import Bars, Figure, Group, Heat, Lines, Series
from harken.lab.claims.bottleneck import ADJECTIVES, NOUNS, sentences
from harken.lab.helpers import learn
from harken.models.build import build_encoder
from harken.models.config import TransformerEncoderConfig
from harken.models.heads.masked import MASK, MaskedModel, mask_tokens
from harken.models.reader import Reader, TokenInput
from harken.nn import GRU, LSTM, RNN, AdditiveScore, Attention, SelfAttention, SinusoidalPositions, masked_softmax
from harken.nn.recurrent.trace import DirectionTrace
from harken.nn.transformer.block import FeedForward
from harken.studio.explorations import EXPLORATIONS, Drawn, Exploration, Slider, Table, Values, exploration

PADDING, START, END = 0, 1, 2
SIGNS = ("<padding>", "<start>", "<end>")
YES_NO = ("yes", "no")

# Where the course shows them: chapter and cell -> a live figure, or a claim of the lab.
PLACES = {
    (1, "generate"): "next-word",
    (2, "picture-of-shares"): "steps",
    (3, "picture-of-gradients"): "vanishing",
    (3, "picture-of-clipping"): "clipping",
    (4, "open-and-close"): "gates",
    (4, "picture-of-half-life"): "cell-memory",
    (5, "picture-by-length"): "bottleneck",
    (6, "attention-written-out"): "weights",
    (7, "picture-of-saturation"): "saturation",
    (7, "block-written-out"): "block",
    (7, "picture-of-path-length"): "path-length",
    (7, "beam-written-out"): "beam",
    (8, "picture-of-a-gap"): "gap",
}
LIVE: dict[str, Exploration] = {}  # every name in PLACES
live = partial(exploration, among=LIVE)


def _share(key: str, label: str, value: float = 0.5, sets: tuple[str, ...] = ()) -> Slider:
    return Slider(key, label, 0.0, 1.0, 0.05, value, sets=sets)


class Text(NamedTuple):
    """Sentences of the phrasebook as numbers of words."""

    words: list[str]
    rows: list[Tensor]

    def numbers(self, text: str) -> list[int]:
        """The numbers of the words of a text."""
        return [self.words.index(word) for word in text.split()]


@cache
def _phrasebook() -> Text:
    pairs = load_phrasebook(direction="en-fr", seed=1, train=4000, valid=1, test=0).train
    split = [pair.source.lower().replace("?", " ?").replace(",", " ,").split() for pair in pairs]
    words = [*SIGNS, *dict.fromkeys(word for one in split for word in one)]
    numbers = {word: number for number, word in enumerate(words)}
    return Text(words, [torch.tensor([START, *(numbers[word] for word in one), END]) for one in split])


def _probable(scores: Tensor, words: list[str], count: int = 8) -> tuple[list[str], list[float]]:
    """The most probable words and their probabilities."""
    best = torch.softmax(scores, 0).topk(count)
    return [words[number] for number in best.indices.tolist()], best.values.tolist()


@cache
def _bigrams() -> Tensor:
    """Log-counts (V, V) of each word after each word."""
    text = _phrasebook()
    counts = torch.full((len(text.words), len(text.words)), 0.01)
    for row in text.rows:
        counts.index_put_((row[:-1], row[1:]), torch.ones(len(row) - 1), accumulate=True)
    counts[:, :END] = 1e-9  # neither padding nor a start follows
    return counts.log()


@live(
    "next-word",
    Slider("word", "After the word", value="drinks", choices=("drinks", "the", "my", "she", "who", "because")),
    Slider("temperature", "Temperature", 0.1, 3.0, 0.1, 1.0),
)
def _next_word(values: Values, seed: int) -> Drawn:
    text, scores, temperature = _phrasebook(), _bigrams(), values["temperature"]
    names, shares = _probable(scores[text.words.index(values["word"])] / temperature, text.words)
    panel = Bars("", "", "probability", names, [Group("", shares)])
    generator = torch.Generator().manual_seed(seed)
    sentence = [text.words.index(values["word"])]
    while sentence[-1] != END and len(sentence) < 15:
        drawn = torch.multinomial(torch.softmax(scores[sentence[-1]] / temperature, 0), 1, generator=generator)
        sentence.append(int(drawn))
    written = " ".join(text.words[number] for number in sentence if number != END)
    title = f"The most probable words after “{values['word']}”"
    return Figure(title, [panel], "A bigram model of 4,000 sentences."), f"Written at this temperature: {written}."


CELLS: dict[str, Any] = {"RNN": RNN, "GRU": GRU, "LSTM": LSTM}
LONG = (
    "the old teacher who lives in the small village gave a red book to the young doctor because the doctor lost the "
    "old book yesterday"
)


class LanguageModel(nn.Module):
    """The language model of chapter 2."""

    def __init__(self, cell: str, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, 32)
        self.layer = CELLS[cell](32, 48, batch_first=True, orthogonal=True)
        self.scores = nn.Linear(48, size)

    def forward(self, ids: Tensor) -> tuple[Tensor, DirectionTrace]:
        """Ids (1, T) -> scores of every next word (T, V), and the states."""
        outputs, _, trace = self.layer(self.embedding(ids), trace=True)
        return self.scores(outputs[0]), trace[0]


@cache
@torch.enable_grad()
def _language_model(cell: str) -> LanguageModel:
    text = _phrasebook()
    torch.manual_seed(1)
    model, generator = LanguageModel(cell, len(text.words)), torch.Generator().manual_seed(1)

    def loss(step: int) -> Tensor:
        chosen = torch.randint(len(text.rows), (32,), generator=generator).tolist()
        ids = pad_sequence([text.rows[number] for number in chosen], batch_first=True)  # (B, T)
        scores = model.scores(model.layer(model.embedding(ids[:, :-1]))[0])
        return cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PADDING)

    learn(model, loss, steps=200, rate=1e-2)
    return model


@live(
    "steps",
    Slider("words", "Words in the sentence", 2, len(LONG.split()), 1, 8),
    Slider("step", "Step", 1, len(LONG.split()), 1, 8),
    Slider("cell", "Network", value="RNN", choices=tuple(CELLS)),
)
def _steps(values: Values, seed: int) -> Drawn:
    text, model = _phrasebook(), _language_model(values["cell"])
    words = LONG.split()[: values["words"]]
    step = min(values["step"], len(words))
    scores, trace = model(torch.tensor([text.numbers(" ".join(words))]))
    trace.retain_grad()
    scores[-1].log_softmax(0).max().neg().backward()
    model.zero_grad()
    lengths = trace.gradient("hidden")[0].norm(dim=-1).tolist()
    states = trace["hidden"][0].detach()
    shown = torch.zeros_like(states)
    shown[:step] = states[:step]
    units = [str(unit + 1) for unit in range(16)]
    heat = Heat("16 numbers of the state", "", "", words, units, shown[:, :16].T.tolist(), signed=True, high=1, form="")
    relative = [max(length / lengths[-1], 1e-12) for length in lengths]
    back = list(range(len(words) - 1, -1, -1))
    gradient = Lines(
        "How much the loss after the last word depends on each state",
        "steps before the end",
        "|dL/dh_t|, relative",
        [Series("", back, relative)],
        log_y=True,
    )
    names, shares = _probable(scores[step - 1].detach(), text.words, 3)
    likely = ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True))
    sentence = (
        f"After “{words[step - 1]}” (step {step} of {len(words)}) the network expects: {likely}. "
        f"Of the gradient after the last word, {relative[0]:.2g} reaches the first one."
    )
    return Figure("", [heat, gradient], f"{values['cell']}, 48 units, trained for 200 updates here."), sentence


@live(
    "gates",
    _share("input_star", "Input gate at the star"),
    _share("input_else", "Input gate elsewhere"),
    _share("forget_star", "Forget gate at the star"),
    _share("forget_else", "Forget gate elsewhere"),
    _share("output", "Output gate"),
)
def _gates(values: Values, seed: int) -> Drawn:
    """An LSTM of one unit whose gates are set by biases: sigmoid(logit(p)) = p."""
    time, star = 24, 6
    layer = LSTM(3, 1, batch_first=True)
    given = [torch.tensor([values[f"{gate}_{at}"] for at in ("star", "else")]) for gate in ("input", "forget")]
    logits = [torch.logit(pair.clamp(1e-4, 1 - 1e-4)) for pair in given]
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        for row, pair in enumerate(logits):  # the rows are i, f, g, o; inputs are the value, the star, no star
            layer.get_parameter("weight_ih_l0")[row, 1:] = pair
        layer.get_parameter("weight_ih_l0")[2, 0] = 1.0
        layer.get_parameter("bias_ih_l0")[3] = torch.logit(torch.tensor(values["output"]).clamp(1e-4, 1 - 1e-4))
        read = 2 * torch.rand(time, generator=torch.Generator().manual_seed(seed)) - 1
        read[star] = 1.0
        marked = torch.zeros(time)
        marked[star] = 1
        x = torch.stack((read, marked, 1 - marked), -1)[None]  # (1, T, 3)
        _, _, trace = layer(x, trace=True)
    cell, hidden = trace[0]["cell"][0, :, 0].tolist(), trace[0]["hidden"][0, :, 0].tolist()
    steps = range(1, time + 1)
    panel = Lines(
        "",
        "step; the star is at step 7",
        "value",
        [
            Series("what is read", steps, read.tolist(), dashed=True, colour=7),
            Series("the cell C", steps, cell, colour=0),
            Series("the state h", steps, hidden, colour=1),
        ],
        dots=False,
    )
    goal = torch.tanh(torch.tensor(1.0)).item()
    holds = abs(cell[-1] - goal) < 0.05
    sentence = f"At the star {goal:.2f} could be written. At the end the cell holds {cell[-1]:.2f}: " + (
        "it has kept what had the star, and nothing else." if holds else "move the gates until it holds just that."
    )
    return Figure("", [panel], "One LSTM cell; the same values are read at every setting."), sentence


class Translator(nn.Module):
    """The translators of chapters 5 and 6: attention after the decoder's step, or none."""

    def __init__(self, attends: bool, size: int, width: int = 48) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(size, 24), nn.Embedding(size, 24)
        self.encoder, self.decoder = GRU(24, width, batch_first=True), GRU(24, width, batch_first=True)
        self.attention = Attention(AdditiveScore(width, width)) if attends else None
        self.scores = nn.Linear(2 * width if attends else width, size)

    def forward(self, source: Tensor, read: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Source (B, S), what the decoder reads (B, T) -> scores (B, T, V), weights (B, T, S), both kinds of states."""
        memory, last = self.encoder(self.source(source))
        states, _ = self.decoder(self.target(read), last)
        if self.attention is None:
            return self.scores(states), states.new_zeros(*read.shape, source.shape[1]), memory, states
        score: Any = self.attention.score
        keys = score.keys(memory)
        weights = masked_softmax(torch.stack([score(state, keys) for state in states.unbind(1)], 1))
        return self.scores(torch.cat((weights @ memory, states), -1)), weights, memory, states


VOCABULARY = [*SIGNS, *ADJECTIVES, *NOUNS, *(word[::-1] for word in ADJECTIVES + NOUNS)]
NUMBERS = {word: number for number, word in enumerate(VOCABULARY)}


def _ids(texts: list[str]) -> Tensor:
    return torch.tensor([[NUMBERS[word] for word in text.split()] for text in texts])


@cache
@torch.enable_grad()
def _translator(attends: bool) -> Translator:
    torch.manual_seed(1)
    model, draw = Translator(attends, len(VOCABULARY)), random.Random(1)

    def loss(step: int) -> Tensor:
        length = draw.randint(2, 6)
        source, target = zip(*sentences(48, (length, length), draw), strict=True)
        targets = _ids([f"{text} <end>" for text in target])
        read = torch.cat((torch.full((48, 1), START), targets[:, :-1]), 1)
        return cross_entropy(model(_ids(list(source)), read)[0].flatten(0, 1), targets.flatten())

    learn(model, loss, steps=450, rate=1e-2)
    return model.eval()


@live("bottleneck", Slider("words", "Words in the sentence", 2, 10, 1, 4))
@torch.no_grad()
def _bottleneck(values: Values, seed: int) -> Drawn:
    length, rows = values["words"], []
    pairs = sentences(50, (length, length), random.Random(seed + 100))
    source, right = _ids([pair[0] for pair in pairs]), _ids([pair[1] for pair in pairs])
    shares = {}
    for name, attends in (("without attention", False), ("with attention", True)):
        written = torch.full((len(pairs), 1), START)
        for _ in range(length):
            best = _translator(attends)(source, written)[0][:, -1].argmax(-1, keepdim=True)
            written = torch.cat((written, best), 1)
        hits = written[:, 1:] == right
        shares[name] = hits.float().mean(0).tolist()
        rows.append(
            [name, " ".join(VOCABULARY[number] for number in written[0, 1:].tolist()), f"{hits.float().mean():.0%}"]
        )
    places = [str(place + 1) for place in range(length)]
    groups = [Group(name, share) for name, share in shares.items()]
    panel = Bars("", "place in the translation", "share right", places, groups, y_limits=(0.0, 1.05))
    table = Table(
        ["", "the first sentence", "words right"], [["source", pairs[0][0], ""], ["right", pairs[0][1], ""], *rows]
    )
    sentence = f"With {length} words, {rows[0][2]} of them come out right without attention, {rows[1][2]} with it."
    note = "50 new sentences; both networks practised 2 to 6 words for 450 updates here."
    return Figure("", [panel], note), sentence, table


SOURCE = f"{NOUNS[0]} {ADJECTIVES[3]} {NOUNS[6]} {NOUNS[9]} {NOUNS[15]}"


@live(
    "weights",
    Slider("place", "Word to write", 1, len(SOURCE.split()), 1, 2),
    Slider("whose", "Weights", value="the network's", choices=("the network's", "mine")),
    *(
        _share(f"w{at}", f"My weight of {word}", 0.2, sets=("whose", "mine"))
        for at, word in enumerate(SOURCE.split(), start=1)
    ),
)
@torch.no_grad()
def _weights(values: Values, seed: int) -> Drawn:
    model, words, written = _translator(True), SOURCE.split(), [START]
    for _ in range(len(words) - 1):
        written.append(int(model(_ids([SOURCE]), torch.tensor([written]))[0][0, -1].argmax()))
    place = values["place"]
    _, own, memory, states = model(_ids([SOURCE]), torch.tensor([written[:place]]))
    mine = torch.tensor([values[f"w{number}"] for number in range(1, len(words) + 1)])
    weights = own[0, -1] if values["whose"] == "the network's" or mine.sum() == 0 else mine / mine.sum()
    context = weights @ memory[0]
    scores = model.scores(torch.cat((context, states[0, -1])))
    names, shares = _probable(scores, VOCABULARY, 6)
    panels: list[Any] = [
        Bars("weights of the source words", "", "", words, [Group("", weights.tolist())], y_limits=(0.0, 1.0)),
        Heat(
            "12 numbers of the context c",
            "",
            "",
            [str(n) for n in range(1, 13)],
            ["c"],
            [context[:12].tolist()],
            signed=True,
            high=1,
        ),
        Bars("the next word", "", "probability", names, [Group("", shares)], y_limits=(0.0, 1.0)),
    ]
    so_far = " ".join(VOCABULARY[number] for number in written[1:place]) or "nothing yet"
    strongest = words[int(weights.argmax())]
    sentence = (
        f"Written: {so_far}. Most weight is on “{strongest}”, and the next word is “{names[0]}” ({shares[0]:.0%})."
    )
    return Figure("", panels, f"It translates “{SOURCE}”: words turned round, an adjective behind its noun."), sentence


@live(
    "block",
    Slider("words", "Words", 2, 12, 1, 6),
    Slider("width", "Width", value="16", choices=("16", "32", "64")),
    Slider("heads", "Heads", value="2", choices=("1", "2", "4", "8")),
    Slider("positions", "Positions", value="no", choices=YES_NO),
    Slider("attention", "Self-attention", value="yes", choices=YES_NO),
    Slider("mask", "Causal mask", value="no", choices=YES_NO),
    Slider("feedforward", "Feed-forward", value="no", choices=YES_NO),
    Slider("residual", "Residual connections", value="no", choices=YES_NO),
    Slider("norm", "Layer norm", value="no", choices=YES_NO),
)
@torch.no_grad()
def _block(values: Values, seed: int) -> Drawn:
    words, width, heads, causal = values["words"], int(values["width"]), int(values["heads"]), values["mask"] == "yes"
    torch.manual_seed(seed)
    attention, network = SelfAttention(width, heads).eval(), FeedForward(width, 4 * width).eval()
    norms, x = [nn.LayerNorm(width), nn.LayerNorm(width)], torch.randn(1, words, width)
    rows: list[list[str]] = [["words as vectors", f"{words} x {width}", ""]]
    if values["positions"] == "yes":
        rows.append(["+ positions", f"{words} x {width}", ""])

    def run(x: Tensor) -> tuple[Tensor, Tensor | None]:
        weights = None
        if values["positions"] == "yes":
            x = x + SinusoidalPositions(width)(words)
        parts = [(values["attention"], attention), (values["feedforward"], network)]
        for norm, (is_in, part) in zip(norms, parts, strict=True):
            if is_in == "no":
                continue
            y = norm(x) if values["norm"] == "yes" else x
            if isinstance(part, SelfAttention):
                y, weights = part.with_weights(y, None, causal)
            else:
                y = part(y)
            x = x + y if values["residual"] == "yes" else y
        return x, weights

    output, weights = run(x)
    if values["attention"] == "yes":
        count = sum(parameter.numel() for parameter in attention.parameters())
        rows += [
            [
                "queries, keys, values",
                f"3 x {heads} heads x {words} x {width // heads}",
                f"{3 * width * (width + 1):,}",
            ],
            ["scores and weights", f"{heads} heads x {words} x {words}", ""],
            ["heads side by side, times W_o", f"{words} x {width}", f"{count - 3 * width * (width + 1):,}"],
        ]
    if values["feedforward"] == "yes":
        rows += [
            ["W_1 and ReLU", f"{words} x {4 * width}", f"{network.expand.weight.numel() + 4 * width:,}"],
            ["W_2", f"{words} x {width}", f"{network.contract.weight.numel() + width:,}"],
        ]
    rows.append(["output", " x ".join(map(str, output.shape[1:])), ""])
    changed = x.clone()
    changed[0, -1] += 1.0
    sees_later = bool((run(changed)[0][0, 0] - output[0, 0]).abs().max() > 1e-5)
    order = torch.arange(words).flip(0)
    keeps_order = not torch.allclose(run(x[:, order])[0], output[:, order], atol=1e-4)
    order_matters = "matters" if keeps_order else "does not matter: reversed words give reversed outputs"
    sees = "sees" if sees_later else "does not see"
    sentence = f"The first word {sees} the last one. The order of the words {order_matters}."
    names = [str(word + 1) for word in range(words)]
    panels = (
        [
            Heat(f"weights of head {head + 1}", "", "", names, names, weights[0, head].tolist(), 0.0, 1.0, form="")
            for head in range(min(heads, 4))
        ]
        if weights is not None
        else []
    )
    table = Table(["part", "shape", "weights learned"], rows)
    return Figure("", panels, "Before training: weights are random. At most four heads are drawn."), sentence, table


@live(
    "beam",
    Slider("word", "First word", value="the", choices=("the", "my", "she", "we", "they", "a")),
    Slider("beam", "Beam", 1, 10, 1, 3),
    Slider("words", "Words to write", 1, 8, 1, 5),
)
@torch.no_grad()
def _beam(values: Values, seed: int) -> Drawn:
    text, model = _phrasebook(), _language_model("GRU")
    beams = [(0.0, [START, text.words.index(values["word"])])]
    rows: list[list[str]] = []
    for step in range(1, values["words"] + 1):
        continued = []
        for total, ids in beams:
            log_p = model(torch.tensor([ids]))[0][-1].log_softmax(0)
            log_p[:END] = -torch.inf
            best = log_p.topk(values["beam"])
            continued += [
                (total + p, [*ids, n]) for p, n in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            ]
        beams = sorted(continued, key=lambda one: -one[0])[: values["beam"]]
        kept = "; ".join(
            f"{' '.join(text.words[number] for number in ids[1:])} ({total:.2f})" for total, ids in beams[:4]
        )
        rows.append([str(step), kept + ("; …" if len(beams) > 4 else "")])
    names = [" ".join(text.words[number] for number in ids[2:]) for _, ids in beams]
    worst = beams[-1][0]
    panel = Bars("", "", "log P", names, [Group("", [total for total, _ in beams])], y_limits=(1.1 * worst, 0.0))
    sentence = f"The best continuation that a beam of {values['beam']} finds has log P {beams[0][0]:.2f}: {names[0]}."
    return (
        Figure("", [panel], "The GRU language model, trained for 200 updates here."),
        sentence,
        Table(["step", "kept"], rows),
    )


GAPS = ("the judges will stick to the plan", "her fox hid this stick near a bench", "a clerk owes this bank some gold")


@cache
@torch.enable_grad()
def _masked_model() -> tuple[MaskedModel, list[str]]:
    plain = sentences_of_two_senses(1500, seed=1)
    words = ["<padding>", "<unknown>", "[MASK]", "<end>", *sorted({word for one in plain for word in one.words})]
    rows = [torch.tensor([words.index(word) for word in one.words]) for one in plain]
    ids, lengths = pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])
    torch.manual_seed(1)
    sizes = {"layers": 2, "width": 48, "heads": 4, "feedforward": 96, "dropout": 0.0}
    encoder = build_encoder(TransformerEncoderConfig.model_validate(sizes))
    model, generator = MaskedModel(Reader(TokenInput(len(words), 48), encoder)), torch.Generator().manual_seed(1)

    def loss(step: int) -> Tensor:
        chosen = torch.randint(len(ids), (64,), generator=generator)
        masked = mask_tokens(ids[chosen], len(words), generator=generator)
        return model.loss(ids[chosen], lengths[chosen], masked) / masked.chosen.sum()

    learn(model, loss, steps=400, rate=5e-3)
    return model.eval(), words


@live(
    "gap",
    Slider("sentence", "Sentence", value=GAPS[0], choices=GAPS),
    Slider("place", "Hidden word", 1, max(len(one.split()) for one in GAPS), 1, 4),
)
@torch.no_grad()
def _gap(values: Values, seed: int) -> Drawn:
    model, vocabulary = _masked_model()
    words = values["sentence"].split()
    place = min(values["place"], len(words)) - 1
    ids = torch.tensor([[vocabulary.index(word) for word in words]])
    ids[0, place] = MASK
    names, shares = _probable(model(ids, None, ids == MASK)[0], vocabulary)
    panel = Bars("", "", "probability", names, [Group("", shares)], y_limits=(0.0, 1.0))
    hidden = " ".join("[MASK]" if at == place else word for at, word in enumerate(words))
    right = shares[names.index(words[place])] if words[place] in names else 0.0
    sentence = f"{hidden}: “{names[0]}” is most probable; the hidden word “{words[place]}” has {right:.0%}."
    return Figure("", [panel], "A masked model of two Transformer blocks, trained for 400 updates here."), sentence


LIVE |= {name: EXPLORATIONS[name] for name in PLACES.values() if name in EXPLORATIONS}
