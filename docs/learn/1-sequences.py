# %% title [markdown]
# # 1. Sequences and language models
#
# A sentence is a sequence of words. This course is about programs that read sequences and write sequences. They
# translate, tag, describe pictures and complete sentences. You write the important parts yourself, a few lines at a
# time, and compare them with those of harken, a library for such programs.
#
# You need Python. You need no deep learning: every term is explained where it comes up first.
#
# In this chapter you turn words into numbers, in two ways. Then you build the simplest program that predicts the next
# word.
#
# **How to work through a chapter.** Go from top to bottom and run each cell. Where it says *Predict*, stop and write
# your guess down before you go on. Where it says *Exercise*, replace the three dots by your answer. In the studio, type
# the answer into its field.

# %% imports
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from harken.data.synthetic.phrasebook import load_phrasebook
from harken.embeddings import OneHot, Settings, WordVectors, read_corpus, train_word2vec
from harken.embeddings.word2vec.reference import step
from harken.inspection.figure import Bars, Figure, Group, Heat
from harken.lab.claims.distances import area, pairs_of, phrasebook_kinds
from harken.learn import check, show
from harken.nn import RNN, smoothed_cross_entropy

# %% the-text [markdown]
# ## The text
#
# All examples use one small text, so that nothing has to be downloaded. harken writes it with a grammar: 16,000 short
# English sentences about people, animals and things. It is simpler than real English. That helps here: you can see at
# once what a program has understood.

# %% load-the-text
corpus = load_phrasebook(direction="en-fr", seed=1, train=16_000, valid=500, test=0)


def words_of(text: str) -> list[str]:
    return text.lower().replace("?", " ?").replace(",", " ,").split()


sentences = [words_of(pair.source) for pair in corpus.train]
held_out = [words_of(pair.source) for pair in corpus.valid]
counts = Counter(word for sentence in sentences for word in sentence)
vocabulary = sorted(counts, key=lambda word: (-counts[word], word))  # the most frequent word first
number_of = {word: number for number, word in enumerate(vocabulary)}

for sentence in sentences[:4]:
    print(" ".join(sentence))
print(f"{len(sentences):,} sentences, {counts.total():,} words, {len(vocabulary):,} different ones")

# %% one-hot [markdown]
# ## One-hot vectors
#
# A program computes with numbers, so each word needs some. The list of all words is the *vocabulary*. Its size is V.
# Number the words from 0 to V - 1.
#
# The numbers themselves must not be used as they are. Word 7 is not "more" than word 3. So each word becomes a list
# of V numbers that are all 0, except for a single 1 at the place of the word. Such a list of numbers is called a
# *vector*, and this one is a *one-hot vector*.

# %% one-hot-vectors
small = ["cat", "dog", "soup", "king"]
one_hot = torch.eye(len(small))  # row i is the vector of word i
for word, vector in zip(small, one_hot, strict=True):
    print(f"{word:5}", vector.tolist())

# %% predict-distances [markdown]
# **Predict.** The distance between two vectors is the length of the line between them. A cat is more like a dog than
# like a soup. Which distance is smaller in one-hot vectors: from *cat* to *dog*, or from *cat* to *soup*?

# %% distances-of-one-hot-vectors
distances = torch.cdist(one_hot, one_hot)
print("cat to dog ", round(distances[0, 1].item(), 3))
print("cat to soup", round(distances[0, 2].item(), 3))
assert distances[0, 1] == distances[0, 2] == distances[2, 3]

# %% all-equally-far [markdown]
# They are the same. In one-hot vectors any two words are equally far apart. The vectors tell words apart and know
# nothing else. What a program learns about *cat* does not help it with *dog*.
#
# **Exercise 1a.** Compute this distance yourself, from the two vectors of *cat* and *dog* above.

# %% exercise-1a
answer = ...
print(check("ex1a", answer))

# %% embeddings [markdown]
# ## Embeddings
#
# Give each word a short vector of ordinary numbers instead, say 50 of them. All vectors together are a table with V
# rows and D columns. It is called an *embedding*. At first the numbers are random. Later they are learned.
#
# ```text
# e = x E          x: one-hot (V),  E: the table (V, D),  e: the vector of the word (D)
# ```
#
# `x E` is a *matrix product*, `@` in Python: multiply each row of the table by the number of x at its place, and add
# the rows. Where x is one-hot, one row is left. So nobody multiplies: a program looks the row up.

# %% embedding-written-out
torch.manual_seed(0)
embedding = torch.nn.Embedding(len(small), 3)  # V = 4 rows, D = 3 columns
table = embedding.weight

by_product = one_hot @ table  # (V, V) times (V, D)
by_row = table[torch.tensor([0, 1, 2, 3])]
assert torch.equal(by_product, by_row)
assert torch.equal(by_row, embedding(torch.tensor([0, 1, 2, 3])))
print("the vector of dog:", [round(value, 2) for value in embedding(torch.tensor(1)).tolist()])

# %% ask-1b [markdown]
# **Exercise 1b.** A model knows 25,000 words and gives each a vector of 100 numbers. How many numbers does its
# embedding have?

# %% exercise-1b
answer = ...
print(check("ex1b", answer))

# %% word2vec [markdown]
# ## word2vec: learning the vectors
#
# How should the numbers be chosen? By an old idea: a word is known by the company it keeps. *Cat* and *dog* both
# occur beside *sleeps*, *small* and *black*. *Soup* does not.
#
# word2vec (Mikolov et al., 2013) makes a game of this idea. Take a word of the text and one of its neighbours. Draw a
# few other words at random. The program has to tell the real word from the random ones, with the vector of the
# neighbour as its only help. To win, words with similar neighbours need similar vectors.
#
# With one neighbour at a time the game is called *skip-gram*. If the mean of all neighbours predicts the word, it is
# called *CBOW*, "continuous bag of words".
#
# ```text
# loss = -log sigmoid(o_word . h)  -  sum over random words r of  log sigmoid(-o_r . h)
#
# h            the vector of the neighbour
# o_w          a second vector of each word w, used on the side of the answer
# a . b        the product of two vectors: multiply number by number, then add;
#              large where both point the same way
# sigmoid(x)   1 / (1 + e^-x): turns any number into one between 0 and 1
# log          the natural logarithm: -log p is 0 where p is 1, and grows as p nears 0
# ```
#
# The *loss* says how badly the program did: 0 is perfect. Learning makes it smaller. The *gradient* of the loss says
# for every number in the program how much the loss changes if this number rises a little. So each number is moved a
# small step against its gradient, again and again. This is *gradient descent*. PyTorch computes gradients by itself,
# in `backward()`.
#
# The numbers that are learned are called *weights*. A formula with many weights is called a *neural network*, or
# *network*. A *model* is a network, or something simpler, for a certain job.
#
# Here is one move of the game in PyTorch. The last lines compare it with harken's own.

# %% word2vec-written-out
torch.manual_seed(0)
h = torch.randn(8, requires_grad=True)  # the neighbour's vector, D = 8; it needs a gradient
outputs = torch.randn(6, 8, requires_grad=True)  # the second vectors of 6 words
rows = torch.tensor([2, 0, 5])  # the real word is number 2; 0 and 5 are drawn at random
labels = torch.tensor([1.0, 0.0, 0.0])
rate = 0.1  # the size of a step

scores = outputs[rows] @ h  # o . h for the three words
signs = 2 * labels - 1  # 1 for the real word, -1 for the others
loss = -torch.nn.functional.logsigmoid(signs * scores).sum()
loss.backward()  # gradients of the loss
new_outputs = outputs - rate * outputs.grad  # a step against the gradient

harken_outputs = outputs.detach().numpy().copy()  # the numbers alone, for harken
neighbours = h.detach().numpy()[None]  # a table of one row
change_of_h, harken_loss = step(neighbours, harken_outputs, rows.tolist(), labels.tolist(), rate)
assert abs(loss.item() - harken_loss) < 1e-4
assert np.allclose(new_outputs.detach().numpy(), harken_outputs, atol=1e-5)
assert np.allclose(-rate * h.grad.numpy(), change_of_h[0], atol=1e-5)
print(f"loss {loss.item():.4f}, the same as harken's")

# %% train-word2vec [markdown]
# Now for real: millions of such moves on the text. harken compiles the game to machine code first. That takes a few
# seconds the first time.

# %% train-the-vectors
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "sentences.txt"
    file.write_text("\n".join(" ".join(sentence) for sentence in sentences))
    text = read_corpus([file], min_count=1)
    settings = Settings(width=50, epochs=8, seed=1, threads=1)
    trained = train_word2vec(text, settings)
    vectors: WordVectors = trained.vectors(text, settings)

for word in ("lemonade", "nurse", "shirt"):
    print(f"{word:9}", ", ".join(f"{near} {cosine:.2f}" for near, cosine in vectors.neighbors(word, 5)))

# %% cosine [markdown]
# The numbers are *cosines*. A cosine compares the directions of two vectors: 1 means the same direction, 0 means
# nothing in common, and -1 means opposite directions.
#
# **Predict.** Take three animals, three drinks and three people. Draw the table of cosines of every word with every
# other. What does it look like for one-hot vectors? And for the learned ones?

# %% picture-of-cosines
words = ["cat", "dog", "horse", "coffee", "lemonade", "wine", "king", "nurse", "student"]


def cosines(vectors: WordVectors) -> list[list[float]]:
    return [[vectors.similarity(first, second) for second in words] for first in words]


panels = [
    Heat(title, "", "", words, words, cosines(vectors_of), signed=True, high=1.0, form="{:.1f}")
    for title, vectors_of in (("one-hot", OneHot(words)), ("learned", vectors))
]
show(Figure("Cosines of nine words", panels))

# %% measure-similarity [markdown]
# The diagonal is each word with itself. One-hot vectors have nothing else. The learned table has three dark squares:
# the program found the animals, the drinks and the people. Nobody told it that there are such kinds.
#
# A picture of nine words may be luck, so measure all nouns. The grammar has lists of them: animals, drinks and so on.
# Take two words of one kind, and two of different kinds. How often are the first two closer? Guessing is right in 50 %
# of the cases.

# %% kinds-of-words
grammar = phrasebook_kinds()
kinds = {kind: [word for word in members if word in vectors] for kind, members in grammar.items()}
kinds = {kind: members for kind, members in kinds.items() if len(members) >= 3}
nouns = [word for members in kinds.values() for word in members]
shares = {
    "one-hot": area(*pairs_of(kinds, dict(zip(nouns, np.eye(len(nouns)), strict=True)))),
    "learned": area(*pairs_of(kinds, {word: vectors.vector(word).astype(float) for word in nouns})),
}
print(f"{len(nouns)} nouns of {len(kinds)} kinds")
for name, share in shares.items():
    print(f"{name}: two words of one kind are closer in {share:.0%} of the cases")
assert shares["one-hot"] == 0.5
assert shares["learned"] > 0.8

# %% from-the-lecture-1 [markdown]
# | what lectures say | what harken's lab measures |
# | --- | --- |
# | one-hot vectors are all equally far apart | 50.0 % of the cases, which is guessing |
# | embeddings bring similar words close | 92.9 % of the cases, with 20,000 sentences (`harken lab distances`) |
#
# GloVe (Pennington et al., 2014) learns vectors from counts instead of a game. Its authors count how often a word k
# occurs near *ice* and near *steam*. The ratio of the two is 8.9 for k = *solid*, 0.085 for *gas*, and near 1 for
# *water* (1.36) and for *fashion* (0.96), which belong to both or to neither. `harken lab ratios` counts this on a
# text of your own.

# %% language-models [markdown]
# ## A language model
#
# A *language model* gives a probability to every possible next word. "The cat drinks ..." may go on with *milk* or
# *water*, hardly with *king*. A program that can do this can also write: choose a word by its probability, put it at
# the end, ask again.
#
# The probability of a whole sentence is a product, one factor for each word:
#
# ```text
# P(w_1, w_2, ..., w_T) = P(w_1) P(w_2 | w_1) P(w_3 | w_1, w_2) ...       "|": "given"
# ```
#
# The simplest model looks back one word only. It is called a *bigram model*: count how often each word follows each
# other word, and divide. To every count a small number is added first, so that nothing is impossible.

# %% bigram-written-out
START, END = len(vocabulary), len(vocabulary) + 1  # two marks, before the first word and after the last
V = len(vocabulary) + 2


def numbers(sentence: list[str]) -> list[int]:
    return [START, *(number_of[word] for word in sentence), END]


follows = torch.full((V, V), 0.01)  # the small number
for sentence in sentences:
    ids = numbers(sentence)
    for before, after in pairwise(ids):
        follows[before, after] += 1
bigram = follows / follows.sum(1, keepdim=True)  # row: the word before; each row sums to 1
assert torch.allclose(bigram.sum(1), torch.ones(V), atol=1e-4)

best = bigram[number_of["drinks"]].topk(5)
likely = zip(best.values.tolist(), best.indices.tolist(), strict=True)
print("after 'drinks':", ", ".join(f"{vocabulary[number]} {share:.2f}" for share, number in likely))

# %% perplexity [markdown]
# ## How good is it? Perplexity
#
# Take sentences that the model has not seen. Ask for the probability of each next word. The loss is the mean of -log
# p: 0 if the model was always certain and right. This loss is called *cross-entropy*. Nearly every model in this
# course is trained with it.
#
# ```text
# loss = -(1 / T) sum over t of log P(w_t | w_1 ... w_{t-1})          perplexity = e^loss
# ```
#
# The *perplexity* is easier to read: a perplexity of 20 means that the model was as unsure as if it had to choose
# among 20 equally likely words.
#
# Networks do not give probabilities but *scores*, any numbers, one for each word. `softmax` makes probabilities of
# them: take e to the power of each score, and divide by the sum. Below, the loss is computed from scores, written
# out, and compared with harken's.

# %% cross-entropy-written-out
torch.manual_seed(0)
scores = torch.randn(5, 7)  # at 5 places in a text, for a vocabulary of 7 words
targets = torch.tensor([3, 0, 6, 2, 2])  # the words that follow
probabilities = scores.exp() / scores.exp().sum(1, keepdim=True)  # softmax
chosen = probabilities[torch.arange(5), targets]  # the probability of each right word
loss = -chosen.log().mean()
harken_sum = smoothed_cross_entropy(scores, targets, padding=None)  # over the 5 places
assert torch.allclose(loss, harken_sum / 5)
print(f"loss {loss:.3f}, perplexity {loss.exp():.1f}")
print("these random scores are worse than an even guess among 7 words")
assert loss.exp() > 7

# %% ask-1c [markdown]
# **Exercise 1c.** A model gave the probabilities 1/2, 1/4 and 1/8 to the three words of a sentence. What is its
# perplexity?

# %% exercise-1c
answer = ...
print(check("ex1c", answer))

# %% predict-perplexity [markdown]
# **Predict.** The vocabulary has about 1,300 words. A model that knows nothing has a perplexity of about 1,300. A
# *unigram* model knows how frequent every word is, and does not look back at all. The bigram model looks back one
# word. What are their perplexities? Write down two numbers.

# %% perplexities
known = [sentence for sentence in held_out if all(word in number_of for word in sentence)]
unigram = follows.sum(0) / follows.sum()


def perplexity(probability: list[torch.Tensor]) -> float:
    return torch.cat(probability).log().mean().neg().exp().item()


pairs = [torch.tensor(numbers(sentence)) for sentence in known]
measured = {
    "uniform": float(V),
    "unigram": perplexity([unigram[ids[1:]] for ids in pairs]),
    "bigram": perplexity([bigram[ids[:-1], ids[1:]] for ids in pairs]),
}
panel = Bars(
    "",
    "",
    "perplexity, less is better",
    list(measured),
    [Group("", list(measured.values()))],
    log_y=True,
    form="{:,.0f}",
)
show(Figure("Perplexity on sentences that the models have not seen", [panel]))
assert [round(measured[name], -digits) for name, digits in (("uniform", 2), ("unigram", 1))] == [1300, 250]
assert round(measured["bigram"]) == 50

# %% generating [markdown]
# About 250 for the unigram model and 50 for the bigram model: one word of context makes a large difference. Now let
# the model write. A *temperature* below 1 makes likely words still more likely; above 1, unlikely words come more
# often. The probabilities are raised to the power 1 / temperature and divided by their sum.

# %% generate
generator = torch.Generator().manual_seed(2)


def write(temperature: float) -> str:
    words, last = [], START
    while last != END and len(words) < 20:
        powered = bigram[last] ** (1 / temperature)
        # draw a word by its probability
        last = int(torch.multinomial(powered / powered.sum(), 1, generator=generator))
        words += [vocabulary[last]] if last < START else []
    return " ".join(words)


for temperature in (0.5, 0.8, 1.2):
    print(f"temperature {temperature}: {write(temperature)}")

# %% what-is-missing [markdown]
# Every two words that stand side by side fit. The whole makes no sense: the model has forgotten how the sentence
# began. *The cats that see the dog* goes on with *sleep*, and only *cats*, five words back, says so.
#
# Looking back further by counting does not work. With 1,300 words there are 1.6 million pairs and 2 billion triples,
# and most of them never occur in any text. A model is needed that reads a whole sentence with a fixed number of
# weights. That is the recurrent network of the next chapter.

# %% five-shapes [markdown]
# ## The five shapes of sequence jobs
#
# Not every job predicts the next word. Jobs differ in what goes in and what comes out. There are five shapes:
#
# | shape | goes in | comes out | example | in harken |
# | --- | --- | --- | --- | --- |
# | one to one | one thing | one thing | a picture, its kind | no sequence at all |
# | one to many | one thing | a sequence | a picture, a sentence about it | `harken caption` |
# | many to one | a sequence | one thing | a review, good or bad | `harken classify` |
# | many to many, in step | a sequence | one thing a step | words, their parts of speech | `harken tag` |
# | many to many, free | a sequence | another of any length | English, French | `harken translate` |
#
# A *layer* is a part of a network. One and the same layer serves all five. Only its inputs and the outputs that are
# used differ. Look at the shapes of the *tensors*: a tensor is a table of numbers with any number of axes. B is the
# number of sequences that are read at once, the *batch*. T is time: the steps of a sequence.

# %% shapes
layer = RNN(8, 16, batch_first=True)  # reads (B, T, 8), gives (B, T, 16); chapter 2 says how
sequence, thing = torch.randn(2, 5, 8), torch.randn(2, 1, 8)  # (B, T, 8) with T = 5, and T = 1
outputs, last = layer(sequence)
shapes = {
    "one to one": layer(thing)[0][:, -1],  # one step
    "one to many": layer(torch.cat((thing, torch.zeros(2, 4, 8)), 1))[0],  # then steps without input
    "many to one": outputs[:, -1],  # the last output has read everything
    "many to many, in step": outputs,  # one output a step
    "many to many, free": layer(torch.zeros(2, 3, 8), last)[0],  # starts where another reader ended
}
for name, result in shapes.items():
    print(f"{name:22}", tuple(result.shape))
assert [result.dim() for result in shapes.values()] == [2, 3, 2, 3, 3]
assert shapes["many to many, free"].shape[1] == 3  # not the length of the input

# %% where-to-read-on [markdown]
# ## Where to read on
#
# You have seen words as one-hot vectors and as embeddings, the loss of word2vec, a language model and its perplexity.
#
# The equations are in these files of harken: [word2vec](../../src/harken/embeddings/word2vec/reference.py),
# [cross-entropy](../../src/harken/nn/loss.py). To train word vectors on a text of your own, see [word
# embeddings](../how-to/embeddings.md).
#
# Next: [2. The recurrent network](2-rnn.py).
