# %% title [markdown]
# # 7. The Transformer
#
# A recurrent network reads one word after the other. Step 100 has to wait for step 99. The *Transformer* (Vaswani et
# al., 2017) has no recurrence. Every word looks at all other words at once, by attention.
#
# In this chapter you build a Transformer block from its parts: queries, keys and values, several heads, positions, a
# mask, and a small network at every place. At the end you write a *beam search*, which finds better sentences than
# the greedy choice of chapter 5.

# %% imports
import math

import torch

from harken.inspection.figure import Figure, Heat, Lines, Series
from harken.lab.claims.path_length import chain, hops
from harken.lab.claims.saturation import random_weights
from harken.learn import check, show
from harken.nn import EncoderBlock, SelfAttention, SinusoidalPositions, attend_with_weights, causal_mask

# %% self-attention [markdown]
# ## Self-attention
#
# In chapter 6 the decoder asked and the encoder's states answered. In *self-attention* all come from the same
# sentence. Each word makes three vectors: a *query*, what it asks for; a *key*, by which it can be found; and a
# *value*, what it has to give. Each is the word's vector times a learned matrix.
#
# ```text
# q_i = W_q x_i      k_j = W_k x_j      v_j = W_v x_j
#
# e_ij = q_i . k_j / sqrt(d)         d: how many numbers a query has
# a_i = softmax over j of e_ij       what word i takes from each word j
# output_i = sum over j of  a_ij v_j
#
# all at once:  Attention(Q, K, V) = softmax(Q K^T / sqrt(d)) V
# ```

# %% self-attention-written-out
torch.manual_seed(0)
x = torch.randn(5, 8)  # five words
layer = SelfAttention(width=8, heads=1)
W, b = layer.query_key_value.weight, layer.query_key_value.bias  # the rows of W_q, W_k, W_v

Q, K, V = (x @ W.T + b).chunk(3, dim=1)  # (5, 8) each
e = Q @ K.T / math.sqrt(8)  # (5, 5): every word asks every word
a = torch.softmax(e, dim=1)  # each row sums to 1
output = layer.output(a @ V)  # and a last linear map, W_o

assert torch.allclose(output, layer(x[None])[0], atol=1e-6)
print("five words in, five words out:", tuple(output.shape))

# %% ask-7a [markdown]
# **Exercise 7a.** A query and two keys have 64 numbers each. Their products are 112 and 96. Divide by the square root
# of 64, and take the softmax. What are the two weights?

# %% exercise-7a
answer = ...
print(check("ex7a", answer))

# %% why-divide [markdown]
# ## Why divide by the square root?
#
# A product of two vectors is a sum of d terms. The more terms, the larger it becomes, by chance alone. Large scores
# make a hard softmax: one weight is near 1, the others near 0. Such a softmax hardly changes when the scores change a
# little, so it hardly passes a gradient.
#
# **Predict.** A query meets 64 random keys. What is the largest of the 64 weights at d = 4, and at d = 1024? With and
# without the division?

# %% picture-of-saturation
sizes = (4, 16, 64, 256, 1024)
largest = {
    name: [random_weights(kind, d, queries=192, seed=1)["largest"] for d in sizes]
    for name, kind in {"q . k": "dot", "q . k / sqrt(d)": "scaled"}.items()
}
lines = [Series(name, sizes, weights) for name, weights in largest.items()]
panel = Lines("", "d, numbers in a query", "largest of 64 weights", lines, log_x=True, y_limits=(0, 1))
show(Figure("What the division does", [panel]))
for name, weights in largest.items():
    print(f"{name:15}: {weights[0]:.2f} at d = 4, {weights[-1]:.2f} at d = 1024")
assert largest["q . k"][-1] > 0.9 and max(largest["q . k / sqrt(d)"]) < 0.2

# %% heads [markdown]
# Without the division, one of 64 keys gets nearly all the weight at d = 1024. With it, d makes no difference.
#
# ## Several heads
#
# One softmax can point at one thing well. But a verb has a subject and an object. So the vectors are cut into pieces,
# and each piece does attention of its own. A piece is called a *head*. The results are put side by side and mixed by
# a last matrix, W_o.
#
# ```text
# head_n = softmax(Q_n K_n^T / sqrt(d / N)) V_n              n = 1 .. N
# MultiHead(Q, K, V) = [head_1; head_2; ...; head_N] W_o
# ```

# %% heads-written-out
torch.manual_seed(0)
layer = SelfAttention(width=8, heads=2)
Q, K, V = layer.query_key_value(x).chunk(3, dim=1)
heads = []
for n in range(2):
    part = slice(4 * n, 4 * n + 4)  # the numbers of this head
    a = torch.softmax(Q[:, part] @ K[:, part].T / math.sqrt(4), dim=1)
    heads.append(a @ V[:, part])
output = layer.output(torch.cat(heads, dim=1))

assert torch.allclose(output, layer(x[None])[0], atol=1e-6)
print("two heads, the same as those of harken.nn.SelfAttention")

# %% ask-7b [markdown]
# **Exercise 7b.** A self-attention layer has width 512 and 8 heads. How many numbers are in its four matrices W_q,
# W_k, W_v and W_o, without biases?

# %% exercise-7b
answer = ...
print(check("ex7b", answer))

# %% order [markdown]
# ## Positions
#
# **Predict.** Exchange the first and the last word of the five, and run the layer again. What happens to the outputs?

# %% shuffle
order = torch.tensor([4, 1, 2, 3, 0])
assert torch.allclose(layer(x[order][None])[0], layer(x[None])[0][order], atol=1e-6)
print("the same five outputs, in the new order")

# %% sinusoids [markdown]
# Self-attention does not see the order. *The dog bites the man* and *the man bites the dog* would be the same to it.
# So each word's vector gets something added that says where it stands. The paper uses waves of different lengths:
#
# ```text
# p_i = (sin(i / r_0), cos(i / r_0), sin(i / r_1), cos(i / r_1), ...)
#
# i      the place of the word
# r_k    10000^(2k / D), for k = 0, 1, ... D/2 - 1: the waves become longer and longer
# ```

# %% positions-written-out
D = 32
i, k = torch.arange(50)[:, None], torch.arange(D // 2)
angle = i / 10000 ** (2 * k / D)  # (50, D / 2)
p = torch.stack((angle.sin(), angle.cos()), dim=2).flatten(1)  # sine and cosine in turn
assert torch.allclose(p, SinusoidalPositions(D)(50), atol=1e-5)

places = [str(n) if n % 10 == 0 else "" for n in range(50)]
numbers = [str(n) if n % 8 == 0 else "" for n in range(D)]
panel = Heat("", "position", "number of the vector", places, numbers, p.T.tolist(), signed=True, form="")
show(Figure("The positions of 50 words", [panel]))

# %% positions-measured [markdown]
# | what lectures say | what harken's lab measures (`harken lab order`) |
# | --- | --- |
# | without positions, order is ignored | reordering changes the outputs by 5e-16, which is rounding |
# | sinusoids do not extend well to longer sentences | trained up to 24 words: 100 % right at 24, 57 % at 48 |
# | learned positions cannot be extended at all | refused from 25 words on |
#
# Positions that depend on the distance of two words do extend: relative (Shaw et al., 2018) and rotary (Su et al.,
# 2021) ones were right in 100 % of the cases at 48 words.
#
# ## The mask
#
# A language model must not see the word that it has to guess. So scores of later words are set to minus infinity
# before the softmax. Their weights are then exactly 0. This is the *causal mask*. It lets a Transformer learn all
# places of a sentence in one call.

# %% mask-written-out
torch.manual_seed(0)
Q, K, V = torch.randn(3, 5, 8)
e = Q @ K.T / math.sqrt(8)
later = torch.ones(5, 5).triu(1).bool()  # True above the diagonal: column after row
a = torch.softmax(e.masked_fill(later, -torch.inf), dim=1)
assert torch.equal(causal_mask(5), ~later)
assert torch.allclose(a, attend_with_weights(Q, K, V, causal=True)[1], atol=1e-6)

names = [f"word {number}" for number in range(1, 6)]
panel = Heat("", "looked at", "", names, names, a.tolist(), 0.0, 1.0, form="{:.2f}")
show(Figure("Weights under a causal mask", [panel]))

# %% block [markdown]
# ## The block
#
# Attention only mixes the vectors of the words. To compute something new with each of them, a small network follows,
# the same at every place: two matrices with a ReLU between them, which turns negative numbers into 0.
#
# Around each of the two parts there is a *residual connection*: the part's result is added to its input, so the
# gradient has a way around it. And there is a *layer normalisation*: each vector is shifted and scaled to mean 0 and
# spread 1. Together they make a *block*.
#
# ```text
# x <- x + MultiHead(norm(x))
# x <- x + W_2 ReLU(W_1 norm(x) + b_1) + b_2
# ```
#
# The paper normalises after the addition, most models today before it, as here.

# %% block-written-out
torch.manual_seed(0)
block = EncoderBlock(width=8, heads=2, feedforward=32)
x = torch.randn(1, 5, 8)


def norm(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()


first, second = block.feedforward.expand, block.feedforward.contract
y = x + block.attention(norm(x))
y = y + second(torch.relu(first(norm(y))))
assert torch.allclose(y, block(x, mask=None), atol=1e-5)
print("one block, the same as harken.nn.EncoderBlock")

# %% encoder-and-decoder [markdown]
# The Transformer of the paper has six such blocks on each side. A block of the decoder has one more part in the
# middle: attention whose queries come from the decoder and whose keys and values come from the encoder. That is the
# attention of chapter 6.
#
# ## What is gained
#
# **Predict.** An RNN and self-attention read n words. How many operations have to wait for one another? And how many
# steps lie between the first and the last word? How do both numbers grow with n?

# %% picture-of-path-length
torch.manual_seed(0)
lengths = (4, 8, 16, 32)
networks = ("RNN", "self-attention")
chains = {kind: [chain(kind, n, layers=1) for n in lengths] for kind in networks}
apart = {kind: [hops(kind, n, seed=1) for n in lengths] for kind in networks}
panels = [
    Lines(title, "words", "", [Series(kind, lengths, counts[kind]) for kind in networks])
    for title, counts in (("operations in a row", chains), ("steps between first and last word", apart))
]
show(Figure("What cannot run in parallel", panels))
assert len(set(chains["self-attention"])) == len(set(apart["self-attention"])) == 1
assert apart["RNN"] == list(lengths) and chains["RNN"][-1] > 5 * chains["RNN"][0]

# %% price [markdown]
# For an RNN both grow with the length. For self-attention both stay the same: every word is one step from every other
# word. So the gradient has a short way, and a GPU, which does thousands of things at once, can compute all words
# together.
#
# The price: every word looks at every word, so there are n times n scores. In the lab, the operations of attention
# grow with the power 2.00 of the length (`harken lab quadratic`).
#
# The results of the paper, in BLEU on the test set of 2014 of the WMT workshop. The last column has the operations of
# the training, for German and for French where they differ:
#
# | model | English-German | English-French | operations |
# | --- | --- | --- | --- |
# | GNMT + RL, LSTM with attention, by Google | 24.6 | 39.92 | 2.3e19, 1.4e20 |
# | ConvS2S, convolutions | 25.16 | 40.46 | 9.6e18, 1.5e20 |
# | Transformer, base | 27.3 | 38.1 | 3.3e18 |
# | Transformer, big | 28.4 | 41.0 | 2.3e19 |
#
# The base model was better in German than all models before it, with about a third of the operations or less.
#
# ## Beam search
#
# Chapter 5 wrote greedily: always the most probable word. That can be a mistake. A good first word may lead to bad
# second ones.
#
# **Exercise 7c.** The first word is A with probability 0.6 or B with 0.4. After A come x, y and z with 0.3, 0.3 and
# 0.4. After B comes x with 0.9 and y with 0.1. What is the probability of the best sentence of two words?

# %% exercise-7c
answer = ...
print(check("ex7c", answer))

# %% beam [markdown]
# A *beam search* keeps the best few beginnings, not only one. At each step it continues each of them with every word,
# and keeps the best again. The number that is kept is the *beam*. A beam of 1 is greedy.

# %% beam-written-out
V, T = 6, 5  # words, length of a sentence


def beam_search(log_p: torch.Tensor, beam: int) -> float:
    """The log-probability of the best sentence.

    log_p has the shape (T, V, V): at each place, of each word after each word.
    """
    scores, last = torch.zeros(1), torch.zeros(1, dtype=torch.long)  # one beginning, which is empty
    for place in range(T):
        continued = scores[:, None] + log_p[place, last]  # (beginnings, V)
        scores, chosen = continued.flatten().topk(min(beam, continued.numel()))
        last = chosen % V
    return scores[0].item()


generator = torch.Generator().manual_seed(0)
made_up = torch.randn(200, T, V, V, generator=generator)
languages = torch.log_softmax(made_up, dim=3)  # 200 of them
best = [beam_search(log_p, V**T) for log_p in languages]  # this beam loses nothing: all 7,776 sentences
shares = {}
for beam in (1, 2, 3, 5, 10):
    reached = [beam_search(log_p, beam) for log_p in languages]
    hits = [math.isclose(score, top, abs_tol=1e-4) for score, top in zip(reached, best, strict=True)]
    shares[beam] = sum(hits) / len(hits)
    print(f"beam {beam:2}: the best sentence is found in {shares[beam]:.0%} of 200 languages")
assert shares[1] < 0.7 < 0.95 < shares[10]

# %% where-to-read-on [markdown]
# ## Where to read on
#
# You have built the Transformer's block, part by part, and a beam search.
#
# The equations are in [functional.py](../../src/harken/nn/attention/functional.py),
# [multihead.py](../../src/harken/nn/attention/multihead.py), [absolute.py](../../src/harken/nn/positions/absolute.py)
# and [block.py](../../src/harken/nn/transformer/block.py); beam search is in
# [beam.py](../../src/harken/search/beam.py). To train a Transformer of your own, run `harken demo`, then see
# [translation](../how-to/translate.md). The measurements are in [the lab](../benchmarks/lab-attention.md).
#
# Next: [8. What comes of it](8-what-comes-of-it.py).
