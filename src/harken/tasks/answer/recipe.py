"""Recipes for question answering: their keys and defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harken.data.io.keys import CorpusName, DataTable, PreparedDir, Seed, Share
from harken.errors import UserError
from harken.models.answering.config import AnswererConfig
from harken.models.config_embeddings import SECTION, Embeddings, EmbeddingsConfig
from harken.paths import Files, PathStr
from harken.recipe import Recipe


class AnswerDataConfig(DataTable):
    """The source of the questions: generated stories, the bAbI tasks, or files; exactly one of the three."""

    corpus: Literal["stories"] | None = Field(default=None, description='A generated corpus: "stories".')
    size: Annotated[int, Field(gt=0)] | None = Field(
        default=None, description="Training questions of the generated corpus."
    )

    dir: PathStr | None = Field(
        default=None, description="bAbI: the archive (tasks_1-20_v1-2.tar.xz), or a folder with qa1_NAME_train.txt ..."
    )
    folder: str = Field(default="en", description="bAbI: folder of the archive; en has 1,000 questions per task.")
    tasks: list[Annotated[int, Field(ge=1)]] = Field(default=[], description="bAbI: task numbers; default: all.")

    train: Files | None = Field(
        default=None, description="Files to train on: .txt in bAbI format, or .jsonl with the columns below."
    )
    valid: Files | None = Field(default=None, description="Files to validate on; default: held out from training.")
    test: Files | None = Field(default=None, description="Files to test on.")
    facts_column: str = Field(default="facts", description="JSONL: a list of sentences, oldest first.")
    question_column: str = Field(default="question", description="JSONL: the question.")
    answer_column: str = Field(default="answer", description="JSONL: its answer.")
    supporting_column: str | None = Field(
        default=None, description="JSONL: indices of the supporting facts, from 0; optional."
    )
    prepared: PreparedDir = None
    name: CorpusName = None
    valid_size: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.1, description="Share of the training stories held out for validation."
    )
    test_size: Share = Field(
        default=0, description="Stories (or fraction) held out for testing if no test files are given."
    )
    seed: Seed = 1


class AnswerRecipe(Recipe):
    """Recipe for question answering."""

    task: Literal["answer"] = Field("answer", description="the job")
    data: AnswerDataConfig = Field(description="where the questions come from")
    embeddings: Embeddings = Field(EmbeddingsConfig.model_validate({}), description=SECTION)
    model: AnswererConfig = Field(AnswererConfig.model_validate({}), description="the network")

    def require_data(self, origin: str) -> None:
        """The recipe for bAbI leaves the place of the archive to the user."""
        data = self.data
        given = [
            name
            for name, value in (("data.corpus", data.corpus), ("data.dir", data.dir), ("data.train", data.train))
            if value
        ]
        if not given:
            raise UserError(
                f"{origin} does not say where its questions are: add --set data.dir=ARCHIVE (tasks_1-20_v1-2.tar.xz of "
                "bAbI, or a folder of its files), --set data.train=FILE, or --set data.corpus=stories"
            )
        if len(given) > 1:
            raise UserError(f"{' and '.join(given)} of {origin} are both given: keep one of them")


RECIPE = AnswerRecipe
