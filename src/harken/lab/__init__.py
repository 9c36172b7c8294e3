"""The lab: experiments that measure claims about sequence models, one file each, on generated data.

>>> from harken.lab import experiment_names, find_experiment
>>> find_experiment("vanishing").name
'vanishing'
"""

from harken.lab.experiment import Experiment, Findings, Progress, Settings
from harken.lab.registry import experiment_names, find_experiment

__all__ = ["Experiment", "Findings", "Progress", "Settings", "experiment_names", "find_experiment"]
