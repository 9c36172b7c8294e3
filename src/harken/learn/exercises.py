"""The exercises of the course and what is said to each answer.

An answer is a number, several numbers, or a function that is called with `inputs`. It is compared with the right one,
then with what known mistakes give. Whole numbers have to be exact, others within a hundredth.

>>> check("ex1b", 2500000)
Right. One row of 100 numbers for each of the 25,000 words; most of the weights of a small language model are here.
>>> check("ex1b", 25_100)
Not yet. You added the two sizes; the table has a row for every word, and each row has 100 numbers.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from harken.errors import UserError

TOLERANCE = 0.01
MAX_ANSWER = 500  # characters of a written answer
OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.MatMult: operator.matmul,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
FUNCTIONS: dict[str, Any] = {
    name: lambda x, name=name: getattr(torch, name)(torch.as_tensor(x, dtype=torch.float64))
    for name in ("exp", "log", "log2", "sigmoid", "sqrt", "tanh")
}


@dataclass(frozen=True)
class Verdict:
    """What is said to an answer."""

    right: bool
    message: str

    def __repr__(self) -> str:
        return f"{'Right' if self.right else 'Not yet'}. {self.message}"


@dataclass(frozen=True)
class Exercise:
    """A question of a chapter with its answer."""

    right: Any  # a number, numbers, or a function of `inputs`
    because: str  # said to a right answer
    clue: str  # said to a wrong answer that is none of the mistakes
    mistakes: Mapping[str, Any]  # hint -> the answer that this mistake gives
    inputs: tuple[Any, ...] = field(default=())

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return list(inspect.signature(self.right).parameters) if self.inputs else []

    def value(self, answer: Any) -> Tensor:
        """The answer as numbers."""
        return torch.as_tensor(answer(*self.inputs) if self.inputs else answer, dtype=torch.float64).detach()

    def equals(self, value: Tensor, answer: Any) -> bool:
        """Whether a value is that of another answer."""
        other = self.value(answer)
        if value.shape != other.shape:
            return False
        return torch.allclose(value, other, rtol=0.0 if isinstance(self.right, int) else TOLERANCE, atol=1e-6)


def check(name: str, answer: Any) -> Verdict:
    """Whether an answer to the exercise of this name is right; otherwise a hint that names the mistake.

    Raises:
        UserError: there is no such exercise.
    """
    if name not in EXERCISES:
        near = get_close_matches(name, EXERCISES, n=1)
        raise UserError(
            f"There is no exercise {name!r}; " + (f"did you mean {near[0]!r}?" if near else "see chapters().")
        )
    exercise = EXERCISES[name]
    if answer is ...:
        return Verdict(False, "Put your answer in place of the three dots.")
    if exercise.inputs and not callable(answer):
        return Verdict(False, "The answer is a function: give its name without parentheses.")
    try:
        value = exercise.value(answer)
    except Exception as error:
        found = f"your function stopped with {type(error).__name__}: {error}" if exercise.inputs else repr(answer)
        return Verdict(False, f"The answer has to come out as numbers, but {found}")
    if exercise.equals(value, exercise.right):
        return Verdict(True, exercise.because)
    shape, needed = tuple(value.shape), tuple(exercise.value(exercise.right).shape)
    if shape != needed:
        return Verdict(False, f"The answer has the shape {shape}, but {needed} is needed. {exercise.clue}")
    hints = (hint for hint, mistake in exercise.mistakes.items() if exercise.equals(value, mistake))
    return Verdict(False, next(hints, exercise.clue))


def read_answer(name: str, text: str) -> Any:
    """A written answer: a number, a list of numbers, or a formula of the inputs where the answer is a function.

    Nothing of it is executed: sums, products, powers and six functions are computed one by one.

    >>> check("ex1a", read_answer("ex1a", "sqrt(2)")).right
    True
    >>> check("ex4c", read_answer("ex4c", "(1 - z) * h + n"))
    Not yet. The candidate counts in full; multiply it by z.

    Raises:
        UserError: no formula, or one with other names.
    """
    exercise = EXERCISES.get(name)
    names = exercise.names if exercise else []
    try:
        if len(text) > MAX_ANSWER:
            raise ValueError
        formula = ast.parse(text.strip().removeprefix("return "), mode="eval").body
        if names:
            _compute(formula, dict(zip(names, exercise.inputs, strict=True)) if exercise else {})
            return lambda *inputs: _compute(formula, dict(zip(names, inputs, strict=True)))
        return _compute(formula, {})
    except (SyntaxError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError, RuntimeError) as error:
        needed = f"a formula of {', '.join(names)}" if names else "a number, or numbers between commas"
        reason = (
            f" ({str(error.args[-1]).splitlines()[0]})" if isinstance(error, ArithmeticError | RuntimeError) else ""
        )
        allowed = f"; you may use + - * / @ ** and {', '.join(FUNCTIONS)}"
        raise UserError(f"{text[:80]!r} cannot be read{reason}; write {needed}{allowed}") from None


def _compute(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of a formula.

    Raises:
        ValueError: something that is not allowed.
    """
    match node:
        case ast.Constant(value=int() | float()):
            return float(node.value)  # type: ignore[arg-type]  # so that powers overflow instead of growing
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=op) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_compute(node.operand, names))
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_compute(node.left, names), _compute(node.right, names))
        case ast.Tuple() | ast.List():
            return [float(_compute(element, names)) for element in node.elts]
        case ast.Call(args=[argument], keywords=[]):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function in FUNCTIONS:
                return FUNCTIONS[function](_compute(argument, names))
    raise ValueError


def _random(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Inputs for functions, always the same."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)


EXERCISES: dict[str, Exercise] = {  # of the chapters in their order
    "ex1a": Exercise(
        math.sqrt(2),
        "Two one-hot vectors differ in two places, by 1 in each, so every pair of words is equally far apart.",
        "Write both vectors down, subtract them, square the differences, add them, take the square root.",
        {
            "You squared the differences and added them; a distance is the square root of that sum.": 2,
            "The vectors differ in two places, not in one: where the first has its 1 and where the second has it.": 1,
            "0 is the product of the two vectors; the distance is asked for.": 0,
        },
    ),
    "ex1b": Exercise(
        2_500_000,
        "One row of 100 numbers for each of the 25,000 words; most of the weights of a small language model are here.",
        "Count the rows of the table, and the numbers in one row.",
        {
            "You added the two sizes; the table has a row for every word, and each row has 100 numbers.": 25_100,
            "This is a table of one-hot vectors, 25,000 numbers a row; an embedding has 100 a row.": 625_000_000,
        },
    ),
    "ex1c": Exercise(
        4.0,
        "On average the model was as unsure as somebody who chooses among 4 equally likely words.",
        "Take the logarithm of each probability, their mean, change the sign, and take the exponential.",
        {
            "This is the mean of 2, 4 and 8; the mean is taken of the logarithms.": 14 / 3,
            "You took the sum of the logarithms instead of their mean: a long text would always look worse.": 64.0,
            "You averaged the probabilities first; take the logarithm of each before you average.": 24 / 7,
            "This is the mean of -log p in nats; the perplexity is its exponential.": math.log(4),
            "This is the mean of -log p in bits; the perplexity is 2 to the power of it.": 2.0,
        },
    ),
    "ex2a": Exercise(
        lambda x, h, W_xh, W_hh, b: torch.tanh(W_xh @ x + W_hh @ h + b),
        "This one line is the whole network; a loop around it reads a sequence.",
        "The equation has two matrix products and one vector, added, and tanh of the sum.",
        {
            "tanh is missing: without it the states of a long sequence can grow without bound.": (
                lambda x, h, W_xh, W_hh, b: W_xh @ x + W_hh @ h + b
            ),
            "b is missing.": lambda x, h, W_xh, W_hh, b: torch.tanh(W_xh @ x + W_hh @ h),
            "b is added after tanh; it belongs inside.": lambda x, h, W_xh, W_hh, b: (
                torch.tanh(W_xh @ x + W_hh @ h) + b
            ),
            "The old state is missing: this network would forget everything at each step.": (
                lambda x, h, W_xh, W_hh, b: torch.tanh(W_xh @ x + b)
            ),
            "You took tanh of each product; it is taken once, of the sum.": (
                lambda x, h, W_xh, W_hh, b: torch.tanh(W_xh @ x) + torch.tanh(W_hh @ h) + b
            ),
        },
        _random((3,), (5,), (5, 3), (5, 5), (5,)),
    ),
    "ex2b": Exercise(
        620,
        "20 x 10 + 20 x 20 + 20. The length of the sequence does not matter: all steps share these numbers.",
        "W_xh makes 20 numbers of 10, W_hh makes 20 of 20, and b has one number for each of the 20.",
        {
            "You left out the vector b, which has 20 numbers.": 600,
            "You counted two vectors b, as PyTorch keeps them; the question is about one.": 640,
            "You left out W_hh, which makes 20 numbers of the 20 of the old state.": 220,
            "You left out W_xh, which makes 20 numbers of the 10 that are read.": 420,
        },
    ),
    "ex2c": Exercise(
        1.0,
        "h_3 = w * w * 1, so dL/dw = 2 w. Both uses of w count, one half each.",
        "h_1 = 1, h_2 = w, h_3 = w * w. Take the derivative of the last one.",
        {
            "This is h_3 itself; asked is how it changes with w.": 0.25,
            "You counted one use of w only. It is used at step 2 and at step 3, and each use adds w.": 0.5,
            "You took w for 1: the derivative of w * w is 2 w.": 2.0,
        },
    ),
    "ex3a": Exercise(
        21,
        "0.8^20 is 0.0115 and 0.8^21 is 0.0092. With words, this is one sentence.",
        "Look for the first whole number k with 0.8^k < 0.01: log 0.01 / log 0.8, rounded up.",
        {
            "After 20 steps 0.0115 is left, which is still more than one hundredth: round up.": 20,
            "You subtracted 0.2 at each step; the gradient is multiplied by 0.8, and what is lost shrinks too.": 5,
            "This is the number for 0.9; the factor is 0.8.": 44,
        },
    ),
    "ex3b": Exercise(
        1.0,
        "The first product doubles the length or halves it, the second one undoes that: the matrix times itself is 1.",
        "(1, 0) becomes (0, 0.5), which becomes (1, 0). Go on.",
        {
            "2^50 would need every product to lengthen the vector; after each product its direction has turned.": 2.0
            ** 50,
            "2^25 counts the doublings and leaves out the halvings between them.": 2.0**25,
            "Every second product halves the length, and the others double it.": 0.5**25,
        },
    ),
    "ex3c": Exercise(
        [0.6, 0.8],
        "The norm was 5, so both numbers are divided by 5: the direction is the same, the length is 1.",
        "The norm is the root of 9 + 16. Multiply both numbers by the limit divided by the norm.",
        {
            "You divided by 25, the square of the norm; the norm is its root.": [0.12, 0.16],
            "You clipped each number by itself; that changes the direction.": [1, 1],
            "You divided by the sum of the numbers; the norm is the root of the sum of their squares.": [3 / 7, 4 / 7],
            "The norm is 5, above the limit: the gradient has to become shorter.": [3, 4],
        },
    ),
    "ex3d": Exercise(
        [0.3, 0.4],
        "Its norm is 0.5, below the limit: clipping never makes a gradient longer.",
        "Compute the norm first, and compare it with the limit.",
        {
            "You made it longer. The factor is min(1, c / |g|), never above 1.": [0.6, 0.8],
            "A gradient below the limit is not removed; it stays as it is.": [0, 0],
        },
    ),
    "ex4a": Exercise(
        2480,
        "4 x (20 x 10 + 20 x 20 + 20): four times the RNN with the same sizes.",
        "Each of i, f, g and o needs as many numbers as the whole RNN of exercise 2b.",
        {
            "These are the numbers of one gate; there are i, f, g and o.": 620,
            "The candidate g has weights too: i, f, g and o are four.": 1860,
            "You counted two vectors b for each gate, as PyTorch keeps them; the question is about one.": 2560,
            "You left out the vectors b.": 2400,
        },
    ),
    "ex4b": Exercise(
        7,
        "0.9^6 is 0.53 and 0.9^7 is 0.48.",
        "Look for the first whole number k with 0.9^k < 0.5.",
        {
            "After 6 steps 0.53 is left, which is still more than half.": 6,
            "You subtracted 0.1 at each step; the cell is multiplied by 0.9.": 5,
        },
    ),
    "ex4c": Exercise(
        lambda h, n, z: (1 - z) * h + z * n,
        "Where z is 0 the state stays, where z is 1 it is replaced.",
        "The new state is a mixture of h and n: the shares are 1 - z and z.",
        {
            "The shares are exchanged. That is PyTorch's form, where z is the share that is kept.": (
                lambda h, n, z: z * h + (1 - z) * n
            ),
            "The old state keeps its full size; it has to make room: multiply it by 1 - z.": lambda h, n, z: h + z * n,
            "The candidate counts in full; multiply it by z.": lambda h, n, z: (1 - z) * h + n,
        },
        (*_random((5,), (5,)), torch.linspace(0.1, 0.9, 5, dtype=torch.float64)),
    ),
    "ex5a": Exercise(
        0.18,
        "Multiply all four. Longer sentences have smaller probabilities, which is why losses use logarithms.",
        "The probability of a sentence is a product, one factor for each word.",
        {
            "This is the mean; the probability of all four together is their product.": 0.675,
            "This is the sum, which no probability can be: it is above 1.": 2.7,
            "This is the logarithm of the probability.": math.log(0.18),
            "You took the smallest factor; all of them count.": 0.5,
        },
    ),
    "ex5b": Exercise(
        8 * math.log2(24),
        "Each word takes log2(24) = 4.6 bits, and the words are independent, so the bits add up.",
        "How many bits does one word take? The binary logarithm of 24.",
        {
            "24 times 8 counts the words on a list; the number of sentences is 24^8.": math.log2(24 * 8),
            "This is the number of possible sentences; the bits are its binary logarithm.": 24.0**8,
            "You used the natural logarithm; bits need the binary one.": 8 * math.log(24),
            "These are the bits of one word.": math.log2(24),
            "One word takes 4.6 bits, not 24.": 192,
            "You exchanged the numbers: there are 24^8 sentences, not 8^24.": 72,
        },
    ),
    "ex6a": Exercise(
        torch.softmax(torch.tensor([2.0, 1.0, 0.0]), 0).tolist(),
        "e^2, e^1 and e^0, divided by their sum: one more in the score means 2.7 times the weight.",
        "Take e to the power of each score, and divide each by the sum of the three.",
        {
            "You divided the scores by their sum; softmax takes e to the power of each first.": [2 / 3, 1 / 3, 0],
            "You forgot to divide by the sum: weights sum to 1.": [math.exp(2), math.exp(1), 1],
            "This is hard attention, all on the best; softmax leaves something for the others.": [1, 0, 0],
            "You used powers of 2; softmax has powers of e.": [4 / 7, 2 / 7, 1 / 7],
        },
    ),
    "ex6b": Exercise(
        [4, 4],
        "0.5 (4, 0) + 0.25 (0, 8) + 0.25 (8, 8). The context need not be near any single state.",
        "Multiply each state by its weight, and add the three vectors.",
        {
            "This is the plain mean; each state counts with its weight.": [4, 16 / 3],
            "You added the states without their weights.": [12, 16],
            "You took the state with the largest weight; soft attention mixes all three.": [4, 0],
            "You divided by 3 after weighting; the weights sum to 1 already.": [4 / 3, 4 / 3],
        },
    ),
    "ex7a": Exercise(
        torch.softmax(torch.tensor([14.0, 12.0]), 0).tolist(),
        "The scores are 14 and 12, and only their difference counts. Undivided the weights would be 1 and 0.",
        "Divide both products by 8, then take the softmax of 14 and 12.",
        {
            "You forgot to divide by 8: with scores of 112 and 96 the second word gets nothing.": [1, 0],
            "You divided by 64; the root of 64 is 8.": torch.softmax(torch.tensor([1.75, 1.5]), 0).tolist(),
            "You divided the scores by their sum; softmax takes e to the power of each first.": [14 / 26, 12 / 26],
            "These are the scores; their softmax is asked for.": [14, 12],
        },
    ),
    "ex7b": Exercise(
        4 * 512 * 512,
        "The number of heads does not matter: they share the 512 numbers among them.",
        "Each of the four matrices makes 512 numbers of 512.",
        {
            "The heads are pieces of the same vectors; they do not multiply the matrices.": 8 * 4 * 512 * 512,
            "You left out W_o, the matrix that mixes the heads.": 3 * 512 * 512,
            "This is one matrix of four.": 512 * 512,
            "This is what one head has of them.": 4 * 512 * 64,
        },
    ),
    "ex7c": Exercise(
        0.36,
        "B x has 0.4 times 0.9. Greedy search takes A, and ends with 0.24.",
        "Multiply the two probabilities of each of the five sentences, and take the largest product.",
        {
            "That is the greedy choice, A z. Look at what B leads to.": 0.24,
            "This is the probability of x after B; multiply by that of B.": 0.9,
            "You added the probabilities; those of a sentence are multiplied.": 1.3,
        },
    ),
    "ex8a": Exercise(
        9.0,
        "The shares are 1/4, 1/4 and 1/2: the third layer counts as much as the other two together.",
        "Take e to the power of each w, divide by the sum, multiply each state by its share, and add.",
        {
            "This is the plain mean; the third layer has a larger share.": 8.0,
            "You used the w themselves as shares; take their softmax.": 12 * math.log(2),
            "You left out the division by the sum of e^w: shares sum to 1.": 36.0,
            "You took the state with the largest share; the mixture has all three.": 12.0,
        },
    ),
    "ex8b": Exercise(
        240,
        "15 % of 2,000 are 300, and 80 % of these are hidden. The other 60 are predicted too.",
        "How many words are chosen? And which share of the chosen ones becomes [MASK]?",
        {
            "These are all that are chosen; not all of them become [MASK].": 300,
            "You took 80 % of all words; only the chosen ones can be hidden.": 1600,
            "These are the ones that become another word; the question is about [MASK].": 30,
            "These are the chosen ones that do not become [MASK].": 60,
        },
    ),
    "ex8c": Exercise(
        6 * 63e6 * 2.5e9,
        "9.45e17: what harken counts for this model, too. A GPU of today that reaches half of 1e15 a second takes half "
        "an hour.",
        "Multiply 6, 63 million and 2.5 billion.",
        {
            "You left out the 6.": 63e6 * 2.5e9,
            "This is the forward pass; with the backward pass it is three times as much.": 2 * 63e6 * 2.5e9,
            "You counted both sides for the whole network; each word is handled by about half of it.": 6 * 63e6 * 5e9,
        },
    ),
    "ex8d": Exercise(
        2.0**20,
        "C^0.05 has to double, so C grows 2^(1/0.05) = 2^20 times: about a million. This is why progress is dear.",
        "For which x is x^-0.05 = 1/2? Take the power -1/0.05 on both sides.",
        {
            "That would be so if the loss fell as 1/C; its power is 0.05.": 2.0,
            "You divided 1 by 0.05; the factor is 2 to the power of that.": 20.0,
            "You multiplied the power by 2; it is 2 to the power of 1/0.05.": 40.0,
        },
    ),
}
