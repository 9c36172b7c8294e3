"""Images and captions."""
