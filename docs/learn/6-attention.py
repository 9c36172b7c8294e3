# %% title [markdown]
# # 6. Attention
#
# The translator of chapter 5 had to press a sentence into one vector. With *attention* it need not. It keeps the
# encoder's state at every word. Before it writes a word, it looks at all of them and takes what it needs.
#
# In this chapter you write attention in a few lines, with five ways to compare. You train a translator with it and
# look at where it looks. It finds out which word belongs to which, and nobody told it.

# %% imports
import random

import torch

from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.claims.bottleneck import ADJECTIVES, NOUNS, sentences, train_translator, translate
from harken.learn import check, show
from harken.nn import (
    AdditiveScore,
    Attention,
    CosineScore,
    DotScore,
    MultiplicativeScore,
    ScaledDotScore,
    masked_softmax,
)

# %% lookup [markdown]
# ## Looking up, hard and soft
#
# A dictionary in Python looks a key up. It is found or it is not; there is nothing between. This is a *hard* lookup.
#
# Attention is a *soft* lookup. It compares what is asked, the *query*, with every key. The better a key fits, the
# more its value counts. The result is a mixture of all values. A mixture changes a little when the query changes a
# little. So it has a gradient, and a network can learn what to ask.
#
# ```text
# e_i = score(s, h_i)             how well does state h_i of the encoder fit the query s?
# a = softmax(e)                  the weights: none below 0, their sum is 1
# c = sum over i of  a_i h_i      the context: a mixture of the states
# ```
#
# In a translator, s is the state of the decoder. The states h_1 ... h_S of the encoder are keys and values at once.
# There is a new context for every word that is written (Bahdanau et al., 2015).

# %% attention-written-out
torch.manual_seed(2)
s, h = torch.randn(6), torch.randn(4, 6)  # the query; the states of four words

e = h @ s  # dot products: one score for each word
a = e.exp() / e.exp().sum()  # softmax
c = a @ h  # the mixture

attention = Attention(DotScore(6, 6))
keys = attention.score.keys(h[None])  # [None]: a batch of one
context, weights = attention(s[None], keys, h[None], mask=None)
assert torch.allclose(context[0], c, atol=1e-6) and torch.allclose(weights[0], a, atol=1e-6)
print("weights:", [round(weight, 2) for weight in a.tolist()], "sum", round(a.sum().item(), 3))

# %% ask-6a [markdown]
# **Exercise 6a.** Three words have the scores 2, 1 and 0. What are their weights? Give a list of three numbers.

# %% exercise-6a
answer = ...
print(check("ex6a", answer))

# %% ask-6b [markdown]
# **Exercise 6b.** The weights are 0.5, 0.25 and 0.25. The states are (4, 0), (0, 8) and (8, 8). What is the context?
# Give a list of two numbers.

# %% exercise-6b
answer = ...
print(check("ex6b", answer))

# %% five-scores [markdown]
# ## Five scores
#
# How should query and state be compared? Five ways are in use:
#
# ```text
# dot              s . h                      no weights; both need the same size
# scaled dot       s . h / sqrt(n)            n: the size of s; chapter 7 says why
# multiplicative   s^T W h                    W is learned; the sizes may differ
# additive         v^T tanh(W1 h + W2 s)      a small network: W1, W2 and v are learned
# cosine           s . h / (|s| |h| t)        only the directions count; t is learned
# ```
#
# Multiplicative is by Luong et al. (2015), additive by Bahdanau et al. (2015), scaled by Vaswani et al. (2017),
# cosine by Graves et al. (2014). Here they are, written out and compared with harken's.

# %% scores-written-out
torch.manual_seed(0)
kinds = (DotScore, ScaledDotScore, MultiplicativeScore, AdditiveScore, CosineScore)
scores = {kind.__name__: kind(6, 6) for kind in kinds}
W = scores["MultiplicativeScore"].weight.weight
W1, b1 = scores["AdditiveScore"].memory.weight, scores["AdditiveScore"].memory.bias
W2, v = scores["AdditiveScore"].query.weight, scores["AdditiveScore"].energy.weight[0]
temperature = scores["CosineScore"].log_temperature.exp()

mine = {
    "DotScore": h @ s,
    "ScaledDotScore": h @ s / 6**0.5,
    "MultiplicativeScore": (h @ W.T) @ s,
    "AdditiveScore": torch.tanh(h @ W1.T + b1 + W2 @ s) @ v,
    "CosineScore": h @ s / (h.norm(dim=1) * s.norm()) / temperature,
}
for name, score in scores.items():
    assert torch.allclose(score(s[None], score.keys(h[None]))[0], mine[name], atol=1e-5), name
    print(f"{name:20}", [round(value, 2) for value in mine[name].tolist()])

# %% hard-and-soft [markdown]
# ## From soft to hard
#
# Divide the scores by a number before the softmax, the *temperature*. (It is the t of the cosine score. The temperature
# of chapter 1 is the same thing: probabilities to the power 1 / t are the softmax of scores divided by t.)
#
# **Predict.** What do the weights become when the temperature is very high? And when it is near 0?

# %% picture-of-temperatures
temperatures = [0.05 * 1.2**power for power in range(40)]
given = torch.tensor([2.0, 1.0, 0.0])
rows = [masked_softmax(given / temperature).tolist() for temperature in temperatures]
lines = [Series(f"score {score:g}", temperatures, [row[at] for row in rows]) for at, score in enumerate(given.tolist())]
panel = Lines("", "temperature", "weight", lines, log_x=True, dots=False, y_limits=(0, 1.02))
show(Figure("Weights of three words", [panel]))
assert torch.allclose(torch.tensor(rows[0]), masked_softmax(given, hard=True), atol=1e-3)
assert max(rows[-1]) - min(rows[-1]) < 0.05

# %% temperature-result [markdown]
# Near 0 all weight is on the best key: a hard lookup. At a high temperature all words count alike: a mean. Attention
# is everything between the two.
#
# ## Train a translator with attention
#
# The language is that of chapter 5: words are turned round, and an adjective goes behind its noun. The call is the same
# with "additive" instead of "none". A state has 64 numbers instead of 84, so that both networks have about as many
# weights.
#
# **Predict.** Draw a table: the words of the source across, the words of the translation down. Shade each cell by the
# weight with which the translator looked at that source word. What will it look like?

# %% train
pairs = sentences(20_000, (3, 8), random.Random(1))
model, _ = train_translator("additive", 64, rate=4e-3, pairs=pairs, steps=450, seed=1)

source = f"{NOUNS[0]} {ADJECTIVES[0]} {NOUNS[5]} {NOUNS[9]} {ADJECTIVES[3]} {NOUNS[12]}"
result = model.translate(source, beam=1, attention=True)
show(result.map())

# %% read-the-map [markdown]
# Each row is one word that was written, and the shades of a row sum to 1. Most of the map is a diagonal: the first
# word was made from the first word, and so on. Twice the diagonal crosses. There the source has an adjective and a
# noun, and the translation has the noun first.
#
# Such a link between words is called an *alignment*. Nobody gave the network alignments. It got pairs of sentences
# and the loss. To make the loss small it had to look at the right place.
#
# One map may be luck. Here are 100 sentences of 6 words: is the strongest weight of each row on the word that the
# translation was made from?

# %% measure-alignment
correct = total = 0
for source, target in sentences(100, (6, 6), random.Random(7)):
    result = model.translate(source, beam=1, attention=True)
    words = source.split()
    order = list(range(len(words)))
    for at in range(len(words) - 1):
        if words[at] in ADJECTIVES and words[at + 1] in NOUNS:
            order[at], order[at + 1] = order[at + 1], order[at]
    if result.text == target:  # a wrong translation has no right alignment
        correct += sum(int(row.argmax()) == at for row, at in zip(result.attention, order, strict=False))
        total += len(order)
print(f"the strongest weight of {correct} of {total} words is on the word that they were made from")
assert total > 200 and correct / total > 0.9

# %% from-the-lecture-6 [markdown]
# | what lectures say | what harken's lab measures (`harken lab alignment`) |
# | --- | --- |
# | attention gives a word alignment for free | 3.9 % wrong links; random 87 %; by counting words (IBM model 1) 3.3 % |
# | diagonal where the word orders agree | 95.5 % of these links found |
# | crossing where they differ | 93.1 % of these links found; the plain diagonal finds 15 % |
#
# On real sentences, German to English, the same kind of network was clearly worse than the classic method (44 % wrong
# to 34 %). Attention says where the network looked. It does not promise to say why.

# %% predict-lengths [markdown]
# ## The bottleneck is gone
#
# **Predict.** In chapter 5 the translator without attention fell with every word. What does the one with attention
# do, at the lengths it has practised (3 to 8 words), and beyond?

# %% picture-by-length
lengths = (4, 5, 6, 7, 8, 10)
bleu = [translate(model, sentences(100, (length, length), random.Random(9)))[0] for length in lengths]
panel = Lines(
    "",
    "words in the sentence",
    "BLEU",
    [Series("with attention", lengths, bleu)],
    y_limits=(0, 105),
    marks=[Mark(8, "longest in training", "x")],
)
show(Figure("Translations with attention", [panel]))
texts = [f"{score:.0f} at {length} words" for length, score in zip(lengths, bleu, strict=True)]
print("BLEU:", ", ".join(texts))
assert bleu[0] - bleu[3] < 15 and bleu[3] > 80

# %% before-and-after [markdown]
# Within the practised lengths it hardly falls. Beyond them both fall: attention removes the bottleneck, it does not
# teach a network to read longer sentences than it ever saw.
#
# ## Before the step or after it
#
# There are two orders. Bahdanau et al. (2015) attend *before* the decoder's step: the query is the old state s_{t-1},
# and the context goes into the step. Luong et al. (2015) attend *after* it: the query is the new state s_t, and the
# context is joined to it before the word is chosen. Both work about equally well.
#
# ## Not only words: captions
#
# Nothing in the equation says that the h_i are words. Cut a picture into squares, turn each square into a vector, and
# let a decoder write a sentence about it (Xu et al., 2015). Each written word has weights over the squares: a map of
# where the network looked. Below is what harken's captioner does after seven minutes of training on generated
# pictures (`harken train scenes-caption`).
#
# ![A picture, and where the network looked for each word of its caption](caption.png)
#
# Attention can also be used with one learned query, to make one vector of a whole set: that is *attention pooling*,
# and a classifier uses it (`harken.nn.AttentionPooling`).

# %% where-to-read-on [markdown]
# ## Where to read on
#
# You have written attention with five scores, trained a translator with it, and read its alignment.
#
# The equation is in [functional.py](../../src/harken/nn/attention/functional.py), the scores are in
# [scores.py](../../src/harken/nn/attention/scores.py). To draw the maps of a model of your own, see
# [alignment](../how-to/alignment.md). The measurements are in [the lab](../benchmarks/lab-attention.md).
#
# Next: [7. The Transformer](7-transformer.py).
