"""The error of this package."""


class PintleError(Exception):
    """The server cannot be found or started, or one of its commands failed. The text has the server's log."""
