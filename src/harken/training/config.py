"""The `[train]` section of a recipe, the same for every task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, PrivateAttr, model_validator

from harken.paths import PathStr

Beta = Annotated[float, Field(ge=0, lt=1)]
BUDGETS = ("max_steps", "max_epochs", "max_minutes")
DEFAULT_MINUTES = 10.0  # the budget of a recipe that names none


class Decision(NamedTuple):
    """A value that a recipe leaves open, and why it was chosen."""

    key: str  # train.batch_tokens
    value: Any
    reason: str

    @property
    def name(self) -> str:
        """The key without its table."""
        return self.key.rpartition(".")[2]


class TrainConfig(BaseModel):
    """Training settings; what a recipe leaves open is chosen by its plan (`harken.plan`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_steps: int | None = Field(None, ge=1, description="stop after this many updates")
    max_epochs: float | None = Field(None, gt=0, description="stop after this many epochs")
    max_minutes: float | None = Field(
        None,
        gt=0,
        description=(
            "time of the whole command, from its start to the finished folder: reading the data, planning, training, "
            "validation; training ends early enough for what comes after it; 10 where no budget is set"
        ),
    )
    batch_tokens: int = Field(
        4096,
        ge=1,
        description=(
            "tokens per batch including padding, on the longer side; where it is not set, fitted to the budget, with "
            '4096 for a budget in steps; "auto": the most that fit into memory, found before the first step'
        ),
    )
    accumulate: int = Field(1, ge=1, description="gradient accumulation: batches per update")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="the optimizer; muon: Muon for the matrices between hidden states, AdamW for the rest"
    )
    learning_rate: float = Field(
        1e-3, gt=0, description="peak learning rate; where it is not set, fitted to the width: 2e-3 at width 256"
    )
    betas: tuple[Beta, Beta] = Field((0.9, 0.98), description="betas of AdamW")
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay of AdamW, on matrices only")
    schedule: Literal["inverse_sqrt", "cosine", "linear", "wsd", "plateau", "constant"] = Field(
        "wsd",
        description=(
            "learning-rate schedule after warm-up; cosine and linear reach 0 at the end of the budget, and so does "
            "wsd, which is constant up to its cool-down"
        ),
    )
    cooldown: float = Field(0.2, gt=0, le=1, description="wsd: share of the budget in which the learning rate falls")
    branch_from: PathStr | None = Field(
        None,
        description=(
            "start from the last checkpoint of the run in this folder (weights, optimizer, place in the data); steps "
            "and minutes of that run count. With wsd: one run at a constant rate, and a cool-down whenever a model is "
            "needed"
        ),
    )
    warmup_steps: int = Field(
        400,
        ge=0,
        description="warm-up: updates in which the learning rate rises from 0; where it is not set, 5% of the budget",
    )
    plateau_factor: float = Field(0.5, gt=0, lt=1, description="plateau: factor of each reduction")
    plateau_patience: int = Field(2, ge=0, description="plateau: validations without improvement before a reduction")
    clip_norm: float | None = Field(1.0, gt=0, description="clip the global norm of the gradient to this value")
    label_smoothing: float = Field(
        0.1,
        ge=0,
        lt=1,
        description=(
            "label smoothing: probability spread over the vocabulary; where it is not set, less for data that is seen "
            "fewer than six times, and none where perplexity is the score"
        ),
    )
    z_loss: float = Field(
        0.0,
        ge=0,
        description=(
            "translation and language models: weight of (log Z)^2, which keeps the logits from drifting; 1e-4 is usual"
        ),
    )
    recompute: bool = Field(
        False,
        description=(
            "activation checkpointing: Transformer blocks are computed again in the backward pass, for less memory and "
            "a third more time"
        ),
    )
    validate_every: int = Field(
        500, ge=1, description="updates between validations; where it is not set, an eighth of the budget"
    )
    validate_sentences: int | None = Field(
        None,
        ge=1,
        description=(
            "decode only this many validation sentences; where it is not set, 300 in a run of less than half an hour"
        ),
    )
    checkpoint_every: int = Field(
        500,
        ge=1,
        description=(
            "updates between checkpoints; where it is not set, an eighth of the budget, at most 500; one is also "
            "written ten minutes after the last"
        ),
    )
    log_every: int = Field(20, ge=1, description="updates between training entries in metrics.jsonl")
    patience: int | None = Field(None, ge=1, description="early stopping: validations without improvement")
    average: float = Field(
        0.999,
        ge=0,
        lt=1,
        description=(
            "decay of the exponential moving average of the weights; 0: none; where it is not set, fitted to the budget"
        ),
    )
    seed: int = Field(1, ge=0, description="random seed; the same seed gives the same run on the same machine")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 on a GPU, and on a CPU where a test shows that it works and is faster"
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    workers: int | None = Field(
        None, ge=1, description="CPU worker processes that share a batch; default: chosen for the machine"
    )
    sharding: Literal["none", "full"] = Field(
        "none",
        description=(
            "with torchrun: full divides weights, gradients and optimizer state over the ranks (FSDP), for models that "
            "do not fit one device; it may change on resuming"
        ),
    )
    threads: int | None = Field(None, ge=1, description="threads per process; default: chosen for the machine")
    tensorboard: bool = Field(
        False, description="write the metrics also as event files for TensorBoard, into the folder of the run"
    )
    compile: bool = Field(False, description="torch.compile the model (GPU)")

    _auto_batch: bool = PrivateAttr(False)

    @model_validator(mode="wrap")
    @classmethod
    def _complete(cls, values: Any, validate: ModelWrapValidatorHandler[TrainConfig]) -> TrainConfig:
        if not isinstance(values, Mapping):
            return validate(values)
        given = dict(values)
        if all(given.get(key) is None for key in BUDGETS):
            given["max_minutes"] = DEFAULT_MINUTES
        auto = given.get("batch_tokens") == "auto"
        if auto:
            del given["batch_tokens"]
        config = validate(given)
        config._auto_batch = auto
        return config

    @property
    def auto_batch(self) -> bool:
        """Whether batch_tokens is "auto" and not yet chosen (`harken.training.planning.batch_size`)."""
        return self._auto_batch and "batch_tokens" not in self.model_fields_set

    @model_validator(mode="after")
    def _check_optimizer(self) -> TrainConfig:
        if self.optimizer == "muon" and self.sharding == "full":
            raise ValueError('train.optimizer "muon" needs whole matrices; use adamw with train.sharding = "full"')
        return self
