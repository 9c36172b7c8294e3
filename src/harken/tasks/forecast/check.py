"""What can be said of a recipe for forecasting before anything is trained."""

from __future__ import annotations

from harken.data.io.files import require_file
from harken.data.series.series import read_series
from harken.models.size import ENCODERS, Size
from harken.tasks.forecast.recipe import ForecastRecipe
from harken.tasks.registry import Estimate


def estimate(recipe: ForecastRecipe) -> Estimate:
    """The file with its columns, and the size of it all.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    data = recipe.data
    known = 2 * len(data.calendar) + len(data.covariates)
    if data.corpus:
        rows, corpus, known = data.series * data.size, f"{data.corpus}: {data.series} series made by harken", 1
        channels = 3
    else:
        path = require_file(data.file or "")
        series = read_series(path, data.layout)
        rows = sum(min(len(one), data.rows or len(one)) for one in series)
        corpus, channels = f"{path}: {rows:,} rows", 1 + known + len(data.past_covariates)
    return Estimate(corpus, rows * data.horizon, size_of(recipe, channels, known))


def size_of(recipe: ForecastRecipe, channels: int, known: int) -> Size:
    """Parameters and cost; a term of the loss is one step of one window, with its share of reading the window."""
    config, data = recipe.model, recipe.data
    side = ENCODERS[config.architecture](config)
    steps = 1 if config.strategy == "recursive" else data.horizon
    inputs = (channels + 1) * side.embedding + 2 * channels
    head = config.head_parameters(side.width, steps, known) + 2 * known
    share = max(1, data.window // steps)  # steps read for every step forecast
    return Size(
        parameters={
            "inputs": config.members * inputs,
            "encoder": config.members * side.parameters,
            "head": config.members * head + 1,
        },
        source_matrices=config.members * share * (side.matrices + channels * side.embedding),
        target_matrices=config.members * (2 * side.width**2 + side.width * (data.window + len(config.quantiles))),
        activations=config.members * share * side.activations,
    )
