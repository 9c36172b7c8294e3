"""word2vec in batches of windows: one window is the reference, many are their sum, and the vectors make sense."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from made_text import made_corpus

from harken.embeddings.training import Progress
from harken.embeddings.word2vec import device as word2vec_device
from harken.embeddings.word2vec import reference
from harken.embeddings.word2vec.batch_kernel import add_rows, negative_samples, step, subsample, windows
from harken.embeddings.word2vec.device import choose_device, train_on_device
from harken.embeddings.word2vec.sampling import alias_table
from harken.embeddings.word2vec.settings import Settings, Subwords
from harken.embeddings.word2vec.training import train_word2vec
from harken.errors import UserError


@pytest.mark.parametrize("is_cbow", [False, True])
def test_a_batch_of_one_window_is_the_reference(is_cbow: bool) -> None:
    generator = np.random.default_rng(2)
    inputs, outputs = (generator.normal(size=(7, 5)).astype(np.float32) for _ in range(2))
    around, rows, rate = [1, 3, 4], [0, 2, 5, 6], 0.1
    ours = torch.from_numpy(inputs.copy()), torch.from_numpy(outputs.copy())
    loss = step(
        *ours,
        torch.tensor([[*around, 6]]),  # the last is none
        torch.tensor([[1.0, 1.0, 1.0, 0.0]]),
        torch.tensor([[*rows, 1]]),
        torch.tensor([[1.0, 1.0, 1.0, 1.0, 0.0]]),
        rate,
        is_cbow,
    )
    hidden = inputs[around].mean(0, keepdims=True) if is_cbow else inputs[around].copy()
    change, wanted = reference.step(hidden, outputs, rows, [1, 0, 0, 0], rate)
    inputs[around] += change
    assert float(loss) == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(ours[0].numpy(), inputs, atol=1e-6)
    np.testing.assert_allclose(ours[1].numpy(), outputs, atol=1e-6)


def test_the_loss_of_a_batch_is_the_sum_over_its_windows() -> None:
    torch.manual_seed(1)
    inputs, outputs = torch.randn(9, 4), torch.randn(9, 4)
    around, rows = torch.randint(0, 9, (6, 3)), torch.randint(0, 9, (6, 4))
    known, counted = (torch.rand(6, 3) < 0.7).float(), torch.ones(6, 4)
    each = [
        step(inputs.clone(), outputs.clone(), *(one[n : n + 1] for one in (around, known, rows, counted)), 0.1)
        for n in range(6)
    ]
    together = step(inputs.clone(), outputs.clone(), around, known, rows, counted, 0.1)
    assert float(together) == pytest.approx(float(sum(each)), rel=1e-5)


def test_a_row_in_many_windows_takes_as_much_as_a_few() -> None:
    table, times = torch.zeros(3, 2), 64
    rows = torch.tensor([[0] * times, [1] * times])
    counted = torch.ones(2, times)
    counted[1, 3:] = 0.0
    add_rows(table, rows, torch.ones(2, times, 2) * counted[:, :, None], counted, 16)
    assert table.tolist() == [[16.0, 16.0], [3.0, 3.0], [0.0, 0.0]]


def test_windows_are_those_of_the_reference() -> None:
    ids = [3, 1, 2, -1, 0, 2, 2, 1, -1, -1, 1, 3, 0]
    kept, reach = torch.tensor(ids), torch.tensor([1, 2, 3, 1, 2, 1, 3, 2, 1, 1, 3, 3, 1])
    found: list[tuple[int, list[int]]] = []
    for start, stop in ((0, 5), (5, 13)):  # the cut of a batch cuts no window
        around, known = windows(kept, start, stop, 3, reach)
        for place, others, there in zip(range(start, stop), around.tolist(), known.tolist(), strict=True):
            near = [other for other, real in zip(others, there, strict=True) if real]
            if near:
                found.append((ids[place], near))

    class Fixed:
        """Draws that give the reach of the words, which alone are asked for one."""

        left = iter([1, 2, 3, 2, 1, 3, 2, 3, 3, 1])

        def uniform(self) -> float:
            return (next(self.left) - 1) / 3 + 0.01

    wanted = reference.windows(ids, np.ones(4), 3, Fixed())  # type: ignore[arg-type]
    assert found == list(wanted)


def test_draws_follow_their_law() -> None:
    generator = torch.Generator().manual_seed(3)
    kept = subsample(torch.tensor([0, 1, -1] * 4000), torch.tensor([0.25, 1.0]), generator)
    counts = [int((kept == number).sum()) for number in (-1, 0, 1)]
    assert counts[0] == counts[2] == 4000 and abs(counts[1] - 1000) < 100
    height, other = (torch.from_numpy(one) for one in alias_table(np.array([16, 1, 1]), power=0.5))
    rows, counted = negative_samples(torch.zeros(3000, dtype=torch.long), 2, height, other.long(), generator)
    assert rows.shape == (3000, 3) and not rows[:, 0].any()
    wrong = rows[:, 1:][counted[:, 1:] > 0]
    assert wrong.min() == 1 and abs(float((wrong == 1).float().mean()) - 0.5) < 0.05
    assert abs(float(counted[:, 1:].mean()) - (1 - (4 / 6) ** 2)) < 0.03  # drawn anew once


@pytest.mark.parametrize("method", ["skipgram", "cbow"])
def test_words_of_one_kind_come_close_in_batches_too(method: str) -> None:
    corpus = made_corpus(words=10, sentences=400)
    settings = Settings(method=method, width=16, window=3, sample=0, epochs=15, rate=0.1)
    trained = train_on_device(corpus, settings, "cpu")
    unit = trained.inputs / np.linalg.norm(trained.inputs, axis=1, keepdims=True)
    likeness = unit @ unit.T
    same = np.equal.outer(np.arange(10) % 2, np.arange(10) % 2) & ~np.eye(10, dtype=bool)
    assert likeness[same].mean() > likeness[~same & ~np.eye(10, dtype=bool)].mean() + 0.5
    kernel = train_word2vec(corpus, settings)
    assert trained.progress.losses[-1] == pytest.approx(kernel.progress.losses[-1], rel=0.05)
    assert trained.progress.words == kernel.progress.words and trained.vectors(corpus, settings).card["settings"]


def test_a_seed_repeats_on_a_cpu_and_ctrl_c_keeps_the_matrices() -> None:
    corpus, settings = made_corpus(sentences=50), Settings(width=8, epochs=2, seed=4)
    first, again = (train_on_device(corpus, settings, "cpu") for _ in range(2))
    assert np.array_equal(first.inputs, again.inputs) and first.device == "cpu"

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    assert train_on_device(corpus, settings, "cpu", stop).progress.stopped


def test_auto_uses_a_gpu_for_large_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = made_corpus(sentences=20)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device(corpus, Settings()) == "cpu"  # a small text
    monkeypatch.setattr(word2vec_device, "GPU_WORDS", 1)
    assert choose_device(corpus, Settings()) == "cuda"
    assert choose_device(corpus, Settings(threads=1)) == "cpu"  # who names threads wants them
    assert choose_device(corpus, Settings(subwords=Subwords(3, 4, 10))) == "cpu"
    assert choose_device(corpus, Settings(device="cuda:1")) == "cuda:1"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(corpus, Settings()) == "cpu"
    with pytest.raises(UserError, match="torch sees no GPU"):
        choose_device(corpus, Settings(device="cuda"))
    with pytest.raises(UserError, match="use auto, cpu, cuda or cuda:N"):
        Settings(device="gpu")
    with pytest.raises(UserError, match="Hierarchical softmax and n-grams are trained on the CPU"):
        train_on_device(corpus, Settings(hierarchical=True), "cpu")
