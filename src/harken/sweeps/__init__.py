"""Several runs of one recipe: a grid, a random search or successive halving over its keys, each with several seeds.

space.py       `--set key=a,b` and `key=low..high:log` as axes, and the settings that they span
trials.py      the trials of a sweep, each an ordinary run folder, and the file sweep.json beside them
processes.py   a process for every trial, several at once
local.py       all trials on this machine; ray_tune.py: on a Ray cluster
results.py     `Sweep`: table, data frame, paired tests, curves
"""
