"""Commands that train and check models: recipes, training runs, evaluation."""
