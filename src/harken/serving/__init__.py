"""Models behind HTTP: the app, its engine of batches and workers, and the dialects that clients speak.

app.py          `create_app(models, settings)`: one FastAPI app with every dialect
registry.py     the served models: names, jobs, language pairs, pivots, changed folders
engine/         requests -> batches -> workers -> results
operations/     what a worker does for each job; the only part that loads models
dialects/       native (/v1), LibreTranslate (/translate ...), DeepL (/v2)
text/           sentences, placeholders, HTML and files around what a model translates
keys.py, limits.py, metrics.py
"""

from harken.errors import require_extra

for _module in ("fastapi", "uvicorn", "multipart", "prometheus_client", "py3langid"):
    require_extra(_module, "serve", "a server")
