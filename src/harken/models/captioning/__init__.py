"""Image encoders and the captioning model."""
