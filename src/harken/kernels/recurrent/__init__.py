"""Fast recurrent layers; the reference is `harken.nn.recurrent`."""
