# %% title [markdown]
# # 3. Vanishing and exploding gradients
#
# In chapter 2 the first words of a sequence hardly moved the weights. In this chapter you see why, and you see the
# opposite: gradients so large that training breaks.
#
# You compute how a gradient travels back through an RNN, step by step. You find out when it shrinks and when it
# grows. Then you repair the second problem with a method of three lines, *clipping*. The first problem needs a better
# network, which is chapter 4.

# %% imports
import math

import torch
from torch import nn

from harken.inspection import gradient_flow
from harken.inspection.figure import Figure, Lines, Mark, Series
from harken.lab.claims.clipping import CHANCE, train
from harken.lab.claims.long_memory import accuracies
from harken.lab.claims.vanishing import DISTANCE, gradient_lengths
from harken.learn import check, show
from harken.nn import GRU, LSTM, RNN
from harken.training.optimizers import clip_by_global_norm

# %% repeated-factors [markdown]
# ## Many factors
#
# Multiply a number by 0.9, fifty times. Then do it with 1.1.

# %% powers
for factor in (0.9, 1.0, 1.1):
    print(f"{factor}^50 = {factor**50:.4f}")

# %% what-powers-mean [markdown]
# Factors a little below 1 leave almost nothing. Factors a little above 1 leave a very large number. Only 1 itself
# keeps what there was. A gradient that goes back over fifty steps is multiplied fifty times.
#
# **Exercise 3a.** A gradient keeps 0.8 of its length at every step back. After how many whole steps is less than one
# hundredth left for the first time?

# %% exercise-3a
answer = ...
print(check("ex3a", answer))

# %% equation [markdown]
# ## The factors of an RNN
#
# ```text
# dL/dh_t = dL/dh_T  J_T  J_{T-1} ...  J_{t+1}     one factor for each step back
#
# J_k = dh_k/dh_{k-1} = diag(1 - h_k^2) W_hh       the Jacobian of step k
#
# diag(v)    a matrix with the numbers of v on its diagonal and 0 elsewhere
# ```
#
# A *Jacobian* is the matrix that says how each number of the new state changes with each number of the old state. For
# an RNN it is W_hh, with each row multiplied by the slope of tanh.
#
# Here is the product, written out. It gives the gradients that harken keeps when a layer is called with `trace=True`.

# %% jacobians-written-out
torch.manual_seed(0)
layer = RNN(4, 32, batch_first=True, dtype=torch.float64)
x = torch.randn(1, 30, 4, dtype=torch.float64)
outputs, _, trace = layer(x, trace=True)
trace.retain_grad()
direction = torch.randn(32, dtype=torch.float64)
(outputs[0, -1] @ direction).backward()  # a made-up loss that depends on the last state only

h, W_hh = outputs[0].detach(), layer.weight_hh_l0.detach()
gradient, gradients = direction, [direction]
for k in range(29, 0, -1):
    J = torch.diag(1 - h[k] ** 2) @ W_hh
    gradient = gradient @ J
    gradients.append(gradient)

assert torch.allclose(torch.stack(gradients).flip(0), trace[0].gradient("hidden")[0])
print("30 gradients by hand, the same as those of harken.nn.RNN")

# %% singular-value [markdown]
# ## The largest singular value
#
# How much can a matrix lengthen a vector? Try all directions and take the largest factor. This number is called the
# *largest singular value* of the matrix. We write s for that of W_hh.
#
# The slope of tanh is at most 1. So one step back multiplies the length of the gradient by at most s, and k steps by
# at most s^k. If s is 0.9, at most half a per cent is left after fifty steps. This is not an observation but a proof
# (Pascanu et al., 2013).

# %% bound
s = torch.linalg.matrix_norm(W_hh, 2).item()  # the largest singular value
lengths = torch.stack([gradient.norm() for gradient in gradients])
assert all(lengths[k] <= lengths[0] * s**k * (1 + 1e-9) for k in range(30))
print(f"s = {s:.2f}; over 29 steps the gradient became {lengths[0] / lengths[29]:.1e} times shorter")

# %% predict-explosion [markdown]
# In this network s is above 1, and still the gradient vanishes. Lectures often say: *the gradient vanishes where s is
# below 1, and explodes where s is above 1.* The first half is the proof above. What about the second half?
#
# **Predict.** Take s = 1.2. In one network nothing is read: all inputs are 0. In another one the inputs are random
# numbers. W_hh is a rotation times s, which lengthens every vector by exactly s. What happens to the gradient over 50
# steps in the first, and in the second?

# %% picture-of-gradients
sizes = (0.5, 0.8, 0.95, 1.05, 1.2, 1.5, 2.0)
networks = {"quiet": "no input", "driven": "random inputs"}
curves = {
    (network, s): gradient_lengths(network, s, hidden=64, rows=8, updates=0, seed=1)["lengths"]
    for network in networks
    for s in sizes
}
panels = [
    Lines(
        title,
        "steps back from the loss",
        "gradient, relative to the last step",
        [Series(f"s = {s:g}", range(DISTANCE + 1), curves[network, s]) for s in sizes],
        log_y=True,
        ordered=True,
        dots=False,
        marks=[Mark(1.0, "")],
        y_limits=(1e-16, 1e16),
    )
    for network, title in networks.items()
]
show(Figure("How the gradient of an RNN changes on its way back", panels))
for s in sizes:
    quiet, driven = (curves[network, s][-1] for network in networks)
    print(f"s = {s:4}: no input {quiet:8.1e}, random inputs {driven:8.1e}")
assert all(curve[-1] < 0.1 for (_, s), curve in curves.items() if s < 1)  # the proven half
assert curves["quiet", 1.2][-1] > 1000 and curves["driven", 1.2][-1] < 0.1  # the other half depends

# %% the-second-half [markdown]
# The vertical axis counts in powers of ten, so a straight line means: the same factor at each step.
#
# Without input the state stays at 0. The slope of tanh is 1 there, and the gradient grows by 1.2 at each step. With
# inputs the state moves away from 0. There tanh is flatter, its slope is below 1, and the product vanishes.
#
# So s > 1 is *necessary* for an explosion and not *sufficient*. Here is the whole experiment of harken's lab (`harken
# lab vanishing`), with 128 units (numbers in the state) and five seeds (repetitions with other random numbers). It
# gives the gradient that is left 50 steps back. In the last column, s is that of the start; training moved it to about
# 2 in every network:
#
# | s | lectures say | no input | random inputs | random matrix | after training |
# | --- | --- | --- | --- | --- | --- |
# | 0.5 | vanishes | 9e-16 | 4e-18 | 3e-30 | 9e-9 |
# | 0.95 | vanishes | 0.08 | 1e-5 | 3e-16 | 8e-5 |
# | 1.05 | explodes | 11.5 | 3e-4 | 4e-14 | 7e-4 |
# | 1.2 | explodes | 9,100 | 0.02 | 3e-11 | 0.03 |
# | 2 | explodes | 1e15 | 1,153 | 4 | 4,069 |
#
# **Exercise 3b.** There is a second reason. The largest factor need not meet the same direction twice. Take the
# matrix with the rows (0, 2) and (0.5, 0). Its largest singular value is 2. Multiply it with the vector (1, 0), fifty
# times. By what factor did the length of the vector change? Do the first two by hand.

# %% exercise-3b
answer = ...
print(check("ex3b", answer))

# %% consequence [markdown]
# ## What vanishing does to learning
#
# A test of memory (after Hochreiter and Schmidhuber, 1997): the network reads one of four symbols, then a number of
# symbols without meaning, then a question mark. Which symbol came first? Guessing is right in 25 % of the cases.
#
# **Predict.** A plain RNN, as in chapter 2, is called *vanilla*. One practises with 3 symbols in between. Another one
# practises with 30. Both get 300 updates. How often is each right?

# %% recall
for delay in (3, 30):
    right = accuracies("RNN, uniform", 32, delay, longest=140, asked=[delay], steps=300, seed=2)[0]
    print(f"{delay} steps between symbol and question: {right:.0%} right")
    assert right > 0.99 if delay == 3 else right < 0.4

# %% why-not-learned [markdown]
# With 3 symbols in between it is always right, with 30 it guesses. The network is large enough to hold the symbol for
# 30 steps. It does not learn to do so, because the gradient that should teach it does not arrive.
#
# ## Clipping
#
# Now the other problem. Where gradients explode, one update throws all weights far away, and what was learned is
# lost. The remedy is simple. Compute the length of the whole gradient, over all weights together. This length is
# called its *norm*. If it is above a limit c, shorten the gradient to the length c. Its direction stays.
#
# ```text
# g <- g min(1, c / |g|)          |g|: the root of the sum of all squares
# ```

# %% clipping-written-out
torch.manual_seed(0)


def weights_with_gradients() -> list[nn.Parameter]:
    weights = [nn.Parameter(torch.zeros(3, 4)), nn.Parameter(torch.zeros(5))]
    for weight, seed in zip(weights, (1, 2), strict=True):
        weight.grad = 10 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
    return weights


c = 1.0
mine = weights_with_gradients()
norm = torch.sqrt(sum((weight.grad**2).sum() for weight in mine))
for weight in mine:
    weight.grad *= torch.clamp(c / norm, max=1.0)

theirs = weights_with_gradients()
assert torch.allclose(clip_by_global_norm(theirs, c), norm)
assert all(torch.allclose(a.grad, b.grad, atol=1e-6) for a, b in zip(mine, theirs, strict=True))
clipped = torch.cat([weight.grad.flatten() for weight in mine])
print(f"the norm was {norm:.1f}; clipped it is {clipped.norm():.3f}")

# %% ask-3c [markdown]
# A common mistake is to compare the *square* of the norm with the limit, or to divide by it. Then the limit means
# something else.
#
# **Exercise 3c.** The gradient is (3, 4) and the limit is 1. What is it after clipping? Give a list of two numbers.

# %% exercise-3c
answer = ...
print(check("ex3c", answer))

# %% ask-3d [markdown]
# **Exercise 3d.** And the gradient (0.3, 0.4), with the same limit?

# %% exercise-3d
answer = ...
print(check("ex3d", answer))

# %% predict-clipping [markdown]
# Try it. An RNN learns to repeat, at every step, the symbol of three steps before. There are four symbols. Its W_hh
# starts as a rotation times 2, so that gradients explode. It is trained twice, without clipping and with the limit 1.
#
# **Predict.** Guessing among four symbols has a loss of log 4 = 1.39. Where do the two losses go?

# %% picture-of-clipping
STEPS = 300
limits = {"no clipping": math.inf, "limit 1": 1.0}
runs = {name: train(2.0, limit, 64, STEPS, 16, seed=2) for name, limit in limits.items()}


def smooth(values: list[float]) -> list[float]:
    """The mean of every 10 updates."""
    return [sum(values[at : at + 10]) / 10 for at in range(0, STEPS, 10)]


across = list(range(10, STEPS + 1, 10))
losses = [Series(name, across, smooth(run["losses"])) for name, run in runs.items()]
lengths = [Series(name, across, smooth(run["lengths"])) for name, run in runs.items()]
panels = [
    Lines("loss", "update", "cross-entropy", losses, dots=False, marks=[Mark(CHANCE, "guessing")]),
    Lines("norm of the gradient, before clipping", "update", "norm", lengths, dots=False, log_y=True),
]
show(Figure("Training where gradients explode", panels))
without, clipped = (sum(run["losses"][-50:]) / 50 for run in runs.values())
print(f"loss at the end: {without:.2f} without clipping, {clipped:.2f} with it; guessing has {CHANCE:.2f}")
assert clipped < CHANCE / 2 and without > CHANCE

# %% what-clipping-does [markdown]
# Lectures say that clipping keeps training stable where gradients explode, and it does. In the lab (`harken lab
# clipping`) at s = 2, 100 % of the runs fail without clipping, and none fails with it. It does not make such a network
# easy to train: at s = 3, only 43 % of the clipped runs learn the task.
#
# Clipping cannot help against vanishing. A gradient of length zero has no direction that could be kept.
#
# ## Look into a network of your own
#
# `gradient_flow` measures all this in any network. Below it compares three kinds. The second and the third are the
# networks of the next chapter.

# %% picture-of-three-networks
torch.manual_seed(0)
batch = torch.randn(8, 60, 16)
options = {"batch_first": True, "orthogonal": True}
rnn = gradient_flow(RNN(16, 64, **options), batch, sampled=0)
gru = gradient_flow(GRU(16, 64, **options), batch, sampled=0)
lstm = gradient_flow(LSTM(16, 64, **options, forget_bias=3.0), batch, sampled=0)
show(rnn.picture("RNN", compare={"GRU": gru, "LSTM": lstm}))
state, cell = rnn[0].curve(), lstm[0].curve("cell")
assert cell[40] / cell[0] > 100 * state[40] / state[0]

# %% what-the-three-show [markdown]
# None of the three has learned anything yet. The RNN and the GRU lose the gradient, because the gates of a new GRU
# stand half open. The LSTM was made with open forget gates. Its cell, C in the picture, hands the gradient back over
# all 60 steps. Chapter 4 shows how.

# %% where-to-read-on [markdown]
# ## Where to read on
#
# You have followed a gradient through an RNN. You know when it has to vanish and when it may explode, and you can
# clip it.
#
# The gradient by steps is kept in [trace.py](../../src/harken/nn/recurrent/trace.py), the Jacobians are in
# [jacobian.py](../../src/harken/inspection/measures/jacobian.py), and clipping is in
# [optimizers.py](../../src/harken/training/optimizers.py). [The lab](../benchmarks/lab.md) has the
# measurements in full.
#
# Next: [4. LSTM and GRU](4-lstm.py).
