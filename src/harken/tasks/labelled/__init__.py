"""What classification and regression share: labelled texts or signals in, one answer for each out."""
