"""Who is calling, and what they may do."""

from dataclasses import dataclass

SCOPES = ("read", "write", "admin")
_IMPLIED = {"read": {"read", "write", "admin"}, "write": {"write", "admin"}, "admin": {"admin"}}


@dataclass(frozen=True)
class Caller:
    """The id is the actor in the event history; `key_`, `jwt:` and `iam:` keep the kinds apart."""

    id: str
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        return bool(self.scopes & _IMPLIED[scope])


ANYBODY = Caller("anonymous", frozenset())
