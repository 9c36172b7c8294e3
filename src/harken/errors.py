"""The one exception a user should ever see."""


class UserError(Exception):
    """A mistake the user can fix: one sentence with what was found, where, and what to do."""
