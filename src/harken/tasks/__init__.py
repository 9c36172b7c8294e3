"""Jobs to train for: each hands the trainer batches, a loss and metrics (`harken.training.task`)."""
