"""Scenes that the package draws itself: shapes in colours, sizes and places, captions, and gold regions."""
