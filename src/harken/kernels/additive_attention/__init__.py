"""Additive attention on a GPU without a (T, S, D) tensor; the reference is `harken.nn.attention`."""
