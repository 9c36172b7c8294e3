"""`harken check` of a forecasting recipe."""

from __future__ import annotations

from harken.data.io.files import require_file
from harken.data.series.series import read_series
from harken.models.forecasting.model import ForecastNetwork
from harken.models.sizing import measure, uninitialised
from harken.tasks.forecast.recipe import ForecastRecipe
from harken.tasks.registry import Estimate


def estimate(recipe: ForecastRecipe) -> Estimate:
    """Read the file, and measure the network; a term of the loss is one forecast step of one window.

    Raises:
        UserError: the error that training would raise.
    """
    data = recipe.data
    known = 2 * len(data.calendar) + len(data.covariates)
    if data.corpus:
        rows, corpus, known = data.series * data.size, f"{data.corpus}: {data.series} series made by harken", 1
        channels = 3
    else:
        path = require_file(data.train or "")
        series = read_series(path, data.layout)
        rows = sum(min(len(one), data.rows or len(one)) for one in series)
        corpus, channels = f"{path}: {rows:,} rows", 1 + known + len(data.past_covariates)
    sizes = {"channels": channels, "known": known, "horizon": data.horizon, "season": 1}
    model = uninitialised(lambda: ForecastNetwork(recipe.model, **sizes))
    return Estimate(corpus, rows * data.horizon, measure(model, data.window, terms=model.horizon))
