"""From sources to translations: search, what constrains it, and what is said of its hypotheses."""
