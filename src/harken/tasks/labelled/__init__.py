"""The common parts of classification and regression: labelled texts or signals in, one answer for each out."""
