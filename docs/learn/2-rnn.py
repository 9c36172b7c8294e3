# %% title [markdown]
# # 2. The recurrent network
#
# A *recurrent neural network*, RNN for short, reads a sequence one step after the other. It keeps a summary of
# everything that it has read so far. The summary is a vector, called the *state*.
#
# In this chapter you write an RNN in eight lines. You train it as a language model, and it beats the bigram model of
# chapter 1. Then you compute its gradient by hand. The gradient tells why training it on long sequences is hard,
# which is the subject of chapter 3.

# %% imports
import torch
from torch import nn

from harken.data.synthetic.phrasebook import load_phrasebook
from harken.inspection.figure import Bars, Figure, Group, Lines, Mark, Series
from harken.learn import check, show
from harken.nn import RNN, smoothed_cross_entropy

# %% equation [markdown]
# ## The equation
#
# ```text
# h_t = tanh(W_xh x_t + W_hh h_{t-1} + b)          the state after step t
# y_t = W_hy h_t + c                               what the network says at step t
#
# x_t      what is read at step t: the vector of a word, I numbers
# h_t      the state, H numbers; h_0 is all zeros
# W, b, c  the weights: tables and vectors of numbers, which are learned
# tanh     turns any number into one between -1 and 1
# ```
#
# This is the network of Elman (1990). In the product `W_xh x_t` each of the H results is a weighted sum of the I
# numbers of x_t, and the weights are a row of the table W_xh. So the state is a mixture of the new word and of the old
# state. Such a table is called a *matrix*.
#
# The same weights are used at every step. This is the point: a network with a fixed number of weights reads sequences
# of any length, and what it learns about a word at one place it knows at every place.

# %% rnn-written-out
torch.manual_seed(0)
layer = RNN(4, 6, batch_first=True)  # I = 4, H = 6
x = torch.randn(1, 10, 4)  # one sequence of 10 steps

W_xh, W_hh = layer.weight_ih_l0, layer.weight_hh_l0  # (H, I) and (H, H)
b = layer.bias_ih_l0 + layer.bias_hh_l0  # PyTorch keeps two biases and adds them; so does harken
h = torch.zeros(6)
states = []
for t in range(10):
    h = torch.tanh(W_xh @ x[0, t] + W_hh @ h + b)
    states.append(h)

assert torch.allclose(torch.stack(states), layer(x)[0][0], atol=1e-6)
print("ten states of 6 numbers, the same as those of harken.nn.RNN")

# %% ask-2a [markdown]
# **Exercise 2a.** Write one step as a function of five tensors. Give `check` the name of the function, without
# parentheses.

# %% exercise-2a


def my_step(x, h, W_xh, W_hh, b):
    return ...


answer = ...  # then: answer = my_step
print(check("ex2a", answer))

# %% ask-2b [markdown]
# **Exercise 2b.** An RNN reads vectors of 10 numbers and keeps a state of 20 numbers. Count W_xh, W_hh and one vector
# b. How many numbers are learned?

# %% exercise-2b
answer = ...
print(check("ex2b", answer))

# %% language-model [markdown]
# ## An RNN as a language model
#
# Three parts make a language model. An embedding turns the words into vectors. The RNN reads them. A last matrix,
# W_hy, turns every state into a score for each word of the vocabulary: which word comes next?
#
# The sentences are those of chapter 1. Sentences in a batch have different lengths, so short ones are filled up with
# a special number, the *padding*. The loss skips the padding.

# %% data
corpus = load_phrasebook(direction="en-fr", seed=1, train=16_000, valid=500, test=0)


def words_of(text: str) -> list[str]:
    return text.lower().replace("?", " ?").replace(",", " ,").split()


PADDING, START, END = 0, 1, 2
train = [words_of(pair.source) for pair in corpus.train]
vocabulary = ["<padding>", "<start>", "<end>", *sorted({word for words in train for word in words})]
number_of = {word: number for number, word in enumerate(vocabulary)}


def numbers(words: list[str]) -> torch.Tensor:
    return torch.tensor([START, *(number_of[word] for word in words), END])


train_ids = [numbers(words) for words in train]
known = [words_of(pair.source) for pair in corpus.valid]
valid_ids = [numbers(words) for words in known if all(word in number_of for word in words)]


def batch_of(rows: list[torch.Tensor]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)  # (B, T)


# %% model


class LanguageModel(nn.Module):  # PyTorch's base class of networks and layers
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(vocabulary), 48)
        # orthogonal: W_hh begins as a rotation, which changes no vector's length
        self.rnn = RNN(48, 96, batch_first=True, orthogonal=True)
        self.scores = nn.Linear(96, len(vocabulary))  # W_hy and c

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # (B, T) -> (B, T, V)
        states, _ = self.rnn(self.embedding(ids))
        return self.scores(states)

    def loss(self, ids: torch.Tensor) -> torch.Tensor:
        """The mean of -log p of every next word."""
        scores, targets = self(ids[:, :-1]), ids[:, 1:]  # the target is the word after each word
        total = smoothed_cross_entropy(scores.flatten(0, 1), targets.flatten(), padding=PADDING)
        return total / (targets != PADDING).sum()


# %% training [markdown]
# ## Training
#
# Take 32 sentences. Compute the loss. Compute its gradient with `backward()`. Move all weights a small step against
# the gradient. Repeat. One round is called an *update*. The size of the steps is chosen by an *optimizer*; the usual
# one is Adam (Kingma and Ba, 2015).
#
# **Predict.** The bigram model of chapter 1 has a perplexity of 50 on new sentences. It has counted all words of 16,000
# sentences. The RNN makes 350 updates, so it reads 11,200 sentences, some of them twice. Which perplexity will it
# reach?

# %% train
torch.manual_seed(1)
model = LanguageModel()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
history = []
for update in range(1, 351):
    chosen = torch.randint(len(train_ids), (32,)).tolist()
    loss = model.loss(batch_of([train_ids[number] for number in chosen]))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # chapter 3 says why
    optimizer.step()
    if update % 70 == 0:
        with torch.no_grad():  # only look, keep nothing for gradients
            history.append((update, model.loss(batch_of(valid_ids)).exp().item()))

updates, perplexities = zip(*history, strict=True)
panel = Lines(
    "",
    "update",
    "perplexity",
    [Series("RNN", updates, perplexities)],
    y_limits=(0, 120),
    marks=[Mark(50, "bigram")],
)
show(Figure("Perplexity on new sentences", [panel]))
print(f"perplexity after {updates[-1]} updates: {perplexities[-1]:.1f}")
assert perplexities[-1] < 45

# %% why-better [markdown]
# The RNN is less surprised than the bigram model. It looks back further than one word. Look at one case. After *the
# cats that see the dog* the verb must be *sleep*: it belongs to *cats*, not to *dog*. The bigram model sees only
# *dog*.

# %% write


def write(model: LanguageModel, temperature: float, generator: torch.Generator) -> str:
    ids = [START]
    while ids[-1] != END and len(ids) < 20:
        with torch.no_grad():
            scores = model(torch.tensor([ids]))[0, -1]
        probabilities = torch.softmax(scores / temperature, 0)
        ids.append(int(torch.multinomial(probabilities, 1, generator=generator)))
    return " ".join(vocabulary[number] for number in ids[1:] if number != END)


generator = torch.Generator().manual_seed(1)
for _ in range(5):
    print(write(model, 0.7, generator))

# %% bptt [markdown]
# ## Backpropagation through time
#
# How does the gradient of the loss get to W_hh? The matrix was used at every step. So every step adds something to
# its gradient.
#
# Start at the end. The loss says how the last state should have been different. From there go back step by step. At
# each step two things happen. The step adds its share to the gradient of W_hh. And what is left is handed to the
# state before: multiplied by the slope of tanh, and by W_hh. This is called *backpropagation through time*, BPTT for
# short.
#
# ```text
# dL/dW_hh = sum over k = 1 .. T of   (dL/dh_k * (1 - h_k^2))  times  h_{k-1}
#
# dL/dh_{k-1} = W_hh^T (dL/dh_k * (1 - h_k^2))
#
# dL/dh     the gradient of the loss by h: how much the loss changes if h rises a little
# 1 - h^2   the slope of tanh where its value is h: how fast it rises there
# a * b     number by number:  (1, 2) * (3, 4) = (3, 8)
# times     the table of all products of a number of the first and one of the second
# W^T       the matrix with rows and columns exchanged
# ```
#
# Here it is, written out. PyTorch's `backward()` has to give the same.

# %% bptt-written-out
torch.manual_seed(0)
layer = RNN(4, 32, batch_first=True)
T = 20
x, direction = torch.randn(1, T, 4), torch.randn(32)
outputs, _ = layer(x)
loss = outputs[0, -1] @ direction  # a made-up loss that depends on the last state only
loss.backward()

h = torch.cat((torch.zeros(1, 32), outputs[0].detach()))  # h[0] is the state before the first step
W_hh = layer.weight_hh_l0.detach()
gradient = direction  # dL/dh_T
shares = []  # of step T first, then T - 1 ...
for k in range(T, 0, -1):
    before_tanh = gradient * (1 - h[k] ** 2)
    shares.append(torch.outer(before_tanh, h[k - 1]))  # "times": what step k adds to the gradient of W_hh
    gradient = W_hh.T @ before_tanh  # dL/dh_{k-1}

assert torch.allclose(sum(shares), layer.weight_hh_l0.grad, atol=1e-5)
print("the gradient by hand is that of backward()")

# %% predict-shares [markdown]
# **Predict.** The loss depends on the last state. There are 20 shares in the sum, one for each step. Which are the
# largest: those of the first steps, those of the last steps, or are all about equal?

# %% picture-of-shares
sizes = [share.norm().item() for share in shares]  # the norm: the root of the sum of all squares
steps = [str(k) for k in range(T)]
panel = Bars("", "steps before the end", "size of the share", steps, [Group("", sizes)], form="")
show(Figure("What each step adds to the gradient of W_hh", [panel]))
print(f"the share of 10 steps before the end is {sizes[10] / sizes[0]:.1e} of that of the last step")
assert sizes[10] < 0.05 * sizes[0]

# %% what-it-means [markdown]
# Only the last few steps count. What stood ten words earlier has almost no influence on how the weights change. So
# this network does not learn to remember it. Chapter 3 explains where the gradient goes, and chapter 4 presents
# networks that keep it.
#
# **Exercise 2c.** Take a network of one number without tanh: `h_t = w h_{t-1} + x_t`, with h_0 = 0. It reads 1, 0, 0.
# The loss is h_3. What is dL/dw for w = 0.5? Write down h_1, h_2 and h_3 first.

# %% exercise-2c
answer = ...
print(check("ex2c", answer))

# %% truncated [markdown]
# ## Truncated backpropagation
#
# A text of a million words cannot be read in one piece: for the way back, all states would have to be kept. So it is
# cut into pieces. The state goes on from piece to piece, but the gradient stops at the cut. This is *truncated* BPTT
# (Williams and Peng, 1990). In PyTorch, `detach()` makes the cut.

# %% truncated-written-out
whole = layer(x)[0]
first, state = layer(x[:, :15])
second, _ = layer(x[:, 15:], state.detach())  # the state goes on, the gradient does not
assert torch.allclose(torch.cat((first, second), 1), whole, atol=1e-6)  # the same outputs

layer.weight_hh_l0.grad = None
(second[0, -1] @ direction).backward()
assert torch.allclose(layer.weight_hh_l0.grad, sum(shares[:5]), atol=1e-5)  # of the last 5 steps
print("cut after step 15: the outputs are equal, the gradient has the last 5 shares")

# %% both-ways [markdown]
# ## Reading in both directions, and in layers
#
# In *the bank is robbed*, only *robbed* tells which kind of bank is meant. A network that reads from the left does not
# know it yet at *bank*. A *bidirectional* RNN is two RNNs: one reads from the left, the other from the right, and at
# every word the two states are put side by side. It fits wherever the whole input is there before the work begins, as
# in tagging. It does not fit a language model, which would see the word that it has to guess; harken refuses it there.
#
# An RNN can also read the states of another RNN. That is a *stacked* RNN, and each RNN in it is a *layer*.

# %% both-ways-shapes
both = RNN(4, 32, num_layers=2, bidirectional=True, batch_first=True)
print("states of both directions side by side:", tuple(both(x)[0].shape))
assert both(x)[0].shape == (1, T, 64)
changed = x.clone()
changed[0, -1] += 1.0  # the last step only
assert torch.equal(layer(changed)[0][0, 0], layer(x)[0][0, 0])  # one direction: the first state is the same
assert not torch.equal(both(changed)[0][0, 0], both(x)[0][0, 0])  # both directions: it is not
print("a change of the last step changes the first state only where both directions are read")

# %% where-to-read-on [markdown]
# ## Where to read on
#
# You have written an RNN, trained it as a language model, and computed its gradient by hand. That two directions are
# better than one where the whole input is at hand is measured by `harken lab both-ways`
# ([results](../benchmarks/lab-attention.md)): where the deciding word comes later, two directions are right in 99.8 %
# of the cases and one in 50.2 %, which is guessing.
#
# The equation is in [rnn.py](../../src/harken/nn/recurrent/rnn.py), the loop over the steps in
# [unroll.py](../../src/harken/nn/recurrent/unroll.py). To train a language model on a text of your own, see [language
# models](../how-to/language.md).
#
# Next: [3. Vanishing and exploding gradients](3-gradients.py).
