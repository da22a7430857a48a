"""Base class of errors that collect the errors of parts of a value."""


class CompositeStructureError(ValueError):
    """Several parts of a value did not pass; ``errors`` of the subclasses holds the exception of each."""
