"""Recordings, features and augmentation."""
