"""Commands that apply a trained model to input: one file per job."""
