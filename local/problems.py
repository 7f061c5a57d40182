"""What can keep the local copy from starting, in words for the person who started it."""


class StartError(Exception):
    """Its text says what is in the way and what to do about it."""

    exit_code = 1


class RefusalError(StartError):
    """Nothing is broken: starting now would do harm, or something else is in the way."""

    exit_code = 2
