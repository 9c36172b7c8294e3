# %% title [markdown]
# # 5. Encoder and decoder
#
# A translator reads a sentence in one language and writes one in another. The two have different lengths and
# different word orders. So it cannot write a word for each word that it reads: it reads everything first, and then it
# writes.
#
# In this chapter you build such a network from two recurrent networks. You train one. It is good at short sentences
# and bad at long ones. You find out why.

# %% imports
import math
import random

import torch
from torch import nn

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.claims.bottleneck import ADJECTIVES, NOUNS, sentences, train_translator, translate
from harken.learn import check, show
from harken.nn import GRU, GRUCell, smoothed_cross_entropy

# %% the-language [markdown]
# ## A language to translate
#
# The words of this language are drawn at random. There are 8 adjectives and 16 nouns. The translation turns every
# word round, and puts an adjective behind the noun that follows it, as French often does.
#
# Why not English? In English a reader can guess. After *the black* there comes a noun, perhaps *cat*. Here nothing
# can be guessed, so every word that comes out right was really kept in memory.

# %% draw-sentences
for source, target in sentences(4, (3, 6), random.Random(1)):
    print(f"{source:20} -> {target}")
print("adjectives:", " ".join(ADJECTIVES))
print("nouns:     ", " ".join(NOUNS))

# %% equation [markdown]
# ## The equation
#
# ```text
# encoder    h_t = f(x_t, h_{t-1})              reads the source, word by word
#            c = h_S                            the context: the state after the last word
# decoder    s_0 = c
#            s_t = f(y_{t-1}, s_{t-1})          reads what it has written so far
#            P(y_t | y_1 ... y_{t-1}, x) = softmax(W s_t + b)
#
# P(y | x) = product over t of P(y_t | y_1 ... y_{t-1}, x)
# ```
#
# The f of the encoder and the f of the decoder are two recurrent networks, each with weights of its own (Cho et al.,
# 2014; Sutskever et al., 2014). The *decoder* is a language model, as in chapter 2. It only starts from another
# state: not from zeros, but from c, a summary of the source. It is a language model *given* x.
#
# Below, the product is computed one word at a time, as a translator writes. Then everything is computed in one call,
# with harken's layer and harken's loss. Both have to agree.

# %% decoder-written-out
torch.manual_seed(0)
V, H = 10, 16  # words, numbers in a state
embed, scores = nn.Embedding(V, 8), nn.Linear(H, V)
encoder, decoder = GRU(8, H, batch_first=True), GRU(8, H, batch_first=True)
source, target = torch.tensor([[4, 7, 5]]), torch.tensor([[6, 9, 3, 2]])  # numbers of words
START = 1  # and 2 ends a sentence

_, context = encoder(embed(source))  # c: (1, 1, H)
cell = GRUCell(8, H)  # one step of the decoder
weights = decoder.state_dict()  # by their names
cell.load_state_dict({name.removesuffix("_l0"): weight for name, weight in weights.items()})
state, last, log_p = context[0], torch.tensor([START]), 0.0
for word in target[0]:
    state = cell(embed(last), state)  # s_t
    probabilities = torch.softmax(scores(state), 1)
    log_p = log_p + probabilities[0, word].log()  # log(a b) = log a + log b
    last = word[None]

read = torch.cat((torch.tensor([[START]]), target[:, :-1]), 1)  # the target, one place to the right
states, _ = decoder(embed(read), context)
loss = smoothed_cross_entropy(scores(states).flatten(0, 1), target.flatten(), padding=None)
assert torch.allclose(-log_p, loss, atol=1e-5)
print(f"log P(y | x) = {log_p:.3f}, word by word and in one call")

# %% teacher-forcing [markdown]
# In training, the decoder reads the *right* words, even where it would have written others. This is called *teacher
# forcing*. All steps can be computed in one call then. When it translates, there is no right answer to read: it reads
# what it wrote itself. The simplest way to write is *greedy*: always take the most probable word.
#
# **Exercise 5a.** The decoder gave the four words of a translation the probabilities 0.9, 0.5, 0.8 and 0.5. What is
# P(y | x)?

# %% exercise-5a
answer = ...
print(check("ex5a", answer))

# %% training [markdown]
# ## Train it
#
# One call trains a whole translator: it cuts the sentences into words, builds encoder and decoder from LSTM layers,
# and trains them with the loss above. It learns from 20,000 sentences of 3 to 8 words, in 450 updates.
#
# *BLEU* (Papineni et al., 2002) is the usual measure of translations. It counts how many single words, pairs, triples
# and groups of four words of the translation are in the *reference*, the right one. 100 means equal to the reference.
#
# **Predict.** Afterwards it translates new sentences of 4, 6 and 8 words. It has practised all three lengths. Which
# share of the words is right at each length?

# %% train
pairs = sentences(20_000, (3, 8), random.Random(1))
attention, width = "none", 84  # chapter 6 has attention; a state has 84 numbers
model, _ = train_translator(attention, width, rate=4e-3, pairs=pairs, steps=450, seed=1)

for source, target in sentences(2, (4, 4), random.Random(2)) + sentences(2, (8, 8), random.Random(2)):
    written = model.translate(source, beam=1).text  # beam 1: greedy
    print(f"source   {source}\nright    {target}\nwritten  {written}\n")

# %% picture-by-length
lengths = (4, 5, 6, 7, 8, 10)
right, bleu = [], []
for length in lengths:
    tested = sentences(100, (length, length), random.Random(9))
    score, texts = translate(model, tested)
    bleu.append(score)
    places = [
        word == reference
        for text, (_, target) in zip(texts, tested, strict=True)
        for word, reference in zip([*text.split(), *[""] * length], target.split(), strict=False)
    ]
    right.append(100 * sum(places) / len(places))

panel = Lines(
    "",
    "words in the sentence",
    "per cent",
    [Series("words in the right place", lengths, right), Series("BLEU", lengths, bleu)],
    y_limits=(0, 105),
    marks=[Mark(8, "longest in training", "x")],
)
show(Figure("Translations without attention", [panel]))
assert bleu[0] > bleu[2] + 15 > bleu[4] + 25

# %% bleu [markdown]
# More than 90 % of the words are right at 4 words, about 74 % at 6 and 57 % at 8. With every word more the quality
# falls, though all these lengths were practised.
#
# ## The bottleneck
#
# Look at the equation again. All that the decoder knows of the source is c. It is one vector of fixed size: 84
# numbers here, for 3 words as for 30. A long sentence has more to say than a short one, and has to pass through the
# same narrow place. It is called the *bottleneck*.
#
# **Exercise 5b.** A sentence has 8 words, each drawn at random from 24. How many bits does it take to write down
# which sentence it was? (One bit tells two possibilities apart, two bits four, three bits eight.)

# %% exercise-5b
answer = ...
print(check("ex5b", answer))

# %% bits
for words in (4, 8, 30):
    bits = words * math.log2(len(ADJECTIVES + NOUNS))
    print(f"{words:2} words need {bits:5.1f} bits; the context has 84 numbers")

# %% what-is-lost [markdown]
# 84 numbers could hold many more bits than that. But they have to be *used*: the encoder must learn to write eight
# words into one vector, so that the decoder can read each of them out at the right moment. That takes a long
# training, and it gets harder with every word.
#
# | what lectures say | what harken's lab measures (`harken lab bottleneck`) |
# | --- | --- |
# | without attention, quality falls with the length | BLEU 100 at 4 words, 98 at 8, 74 at 12 |
# | with attention it falls far less | BLEU 100 at 4 words, 100 at 8, 100 at 12 |
# | also beyond the lengths of the training | both fall: BLEU 13 and 29 at 24 words |
#
# The lab trained on sentences of 3 to 12 words with three seeds, until no validation was better or for 5,000 updates.
# With twice the width, the network without attention loses 15 points up to 12 words and not 26. None without attention
# had reached its best after 5,000 updates; those with attention had after 2,250 at most.
#
# One can make the context larger, or give it to the decoder at every step and not only at the first. Both help a
# little. The cure is another one: let the decoder look back at the source. That is *attention*.

# %% where-to-read-on [markdown]
# ## Where to read on
#
# You have built a translator from two recurrent networks, and you have seen its bottleneck.
#
# The encoder-decoder is in [encoder_decoder.py](../../src/harken/models/encoder_decoder.py), its recurrent decoder in
# [step.py](../../src/harken/models/recurrent/step.py). To train a translator on sentences of your own, see
# [translation](../how-to/translate.md).
#
# Next: [6. Attention](6-attention.py).
