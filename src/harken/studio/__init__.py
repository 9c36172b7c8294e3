"""The studio: a web page that translates, shows what a model does inside, and follows trainings.

app.py          the page for a folder of runs (`harken studio`), or beside a server (`harken serve --studio`)
library.py      the models and runs that the page knows, loaded when they are first asked for
example.py      the studio's own small recurrent model, trained when it is first needed
translating.py  translations with the probability of every word, their alignment, alternatives
inside.py       attention of every head, words switched off, gates, gradients, neighbours
searching.py    the beam as a tree
runs.py         metrics, recipes and cards of run folders
laboratory.py   the claims of `harken.lab`
explorations.py figures of some claims with sliders
figures.py      figures of harken.inspection as JSON
jobs.py         the pictures of every other job
workers.py      worker processes: how many, for whom, for how long
worker.py       the tasks of such a process
routes.py       the HTTP routes under /studio
static/         the page: ES modules, no build step
"""
