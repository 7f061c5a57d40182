"""How long each function may run and how much memory it gets, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    timeout_seconds: int
    memory_mb: int


# Memory is mostly about processor share (1769 MB is one core): imports, TLS and JSON, not data.
BUDGETS = {
    # The gateway gives up at 30 s; somebody waits for the answer, so it starts with the most processor.
    "api": Budget(timeout_seconds=29, memory_mb=1024),
    # One purchase: a look at offers, one create call of 30 s at most, a second offer if the first is refused.
    "create": Budget(timeout_seconds=90, memory_mb=512),
    # A batch of 5 looks that share one list read, or single gets of 10 s with retries.
    "monitor": Budget(timeout_seconds=60, memory_mb=512),
    # One round of health checks: 15 s at most for the application, and the writes before and after.
    "startup": Budget(timeout_seconds=50, memory_mb=512),
    # One attempt: resolve, connect, and at most 30 s for the receiver to answer.
    "webhook": Budget(timeout_seconds=40, memory_mb=512),
    # Ends before the next minute's sweep begins.
    "reconcile": Budget(timeout_seconds=58, memory_mb=512),
    # A batch of dead letters: for each a few reads and writes, and none of them waits for anybody.
    "dead_letters": Budget(timeout_seconds=30, memory_mb=512),
    # A batch of events, each one publish and one message.
    "announce": Budget(timeout_seconds=60, memory_mb=512),
}
