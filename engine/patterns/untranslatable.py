"""The error of an expression that RE2 can't take."""


class Untranslatable(ValueError):
    """An expression that is wrong in Java, or that RE2 can't handle; the message says which."""
