"""The base of the errors that hold the errors of the parts of a value."""


class CompositeStructureError(ValueError):
    """Several parts of a value did not pass; ``errors`` of the subclasses has the exception of each."""
