"""harken's models in the manners of scikit-learn: `fit`, `predict`, `score`, in pipelines and searches, pickled safely.

SequenceClassifier   texts or arrays to labels           SequenceTagger       sequences to a label a step
SequenceRegressor    texts or arrays to numbers          SequenceForecaster   the past to what comes
"""

from harken.errors import require_extra

require_extra("sklearn", "estimators", "an estimator")
