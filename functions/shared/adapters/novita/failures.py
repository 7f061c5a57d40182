"""What an answer, or the lack of one, means: our error, whether it counts, whether to try again."""

from dataclasses import dataclass

from functions.shared.adapters.novita.calls import Answer, Call, Lost
from functions.shared.adapters.novita.refusals import ABSENT, details, message, refusal
from functions.shared.domain import reasons
from functions.shared.domain.errors import NotNow, NovitaForNow, OstlerError, OutcomeUnclear
from functions.shared.domain.reasons import Meaning

UNSAID_PAUSE_SECONDS = 2.0  # after a 429 without Retry-After
# On a 5xx these are not believed: an outage must not pass for an absence or for a machine's status.
_NEEDS_4XX = frozenset({Meaning.MISSING, Meaning.NO_TEMPLATE, Meaning.STATE})


@dataclass(frozen=True)
class Verdict:
    error: OstlerError
    counts: bool = False  # against the circuit
    again: bool = False  # another attempt may go better, if the call may be repeated at all
    unheard: bool = False  # Novita did not take the call
    too_fast: bool = False


def judge(call: Call, outcome: Answer | Lost) -> Answer | Verdict:
    """The answer, where it is one to what was asked."""
    if isinstance(outcome, Lost):
        return _lost(call, outcome)
    if outcome.fine:  # what an action is answered with is not documented, and nothing is read from it
        readable = call.acts or isinstance(outcome.body, dict)
        return outcome if readable else Verdict(unreadable(call))
    if outcome.status == 429 or (outcome.refusal and reasons.meaning(outcome.reason) is Meaning.TOO_FAST):
        return _too_fast(call, outcome)
    if outcome.refusal:
        lost_its_way = outcome.status in ABSENT and not outcome.reason  # no answer, like a 5xx
        return Verdict(refusal(call, outcome), counts=lost_its_way, again=lost_its_way, unheard=True)
    return _failed(call, outcome)


def unreadable(call: Call) -> OstlerError:
    return _open_ended(
        call, "NOVITA_UNAVAILABLE", f"Novita's answer when asked to {call.what} makes no sense"
    )


def _lost(call: Call, lost: Lost) -> Verdict:
    if not call.harmless_twice and not lost.sent:
        error: OstlerError = NotNow(
            "NOVITA_UNAVAILABLE", f"Novita was not reached to {call.what}; nothing was sent"
        )
    elif lost.timed_out:
        error = _open_ended(
            call, "NOVITA_TIMEOUT", f"Novita did not answer in time when asked to {call.what}"
        )
    else:
        error = _open_ended(
            call, "NOVITA_UNAVAILABLE", f"The connection failed when Novita was asked to {call.what}"
        )
    return Verdict(error, counts=True, again=True, unheard=not lost.sent)


def _too_fast(call: Call, answer: Answer) -> Verdict:
    wait = UNSAID_PAUSE_SECONDS if answer.retry_after is None else answer.retry_after
    error = NotNow("RATE_LIMIT_EXCEEDED", message(call, answer), details=details(answer), retry_after=wait)
    return Verdict(error, again=True, unheard=True, too_fast=True)


def _failed(call: Call, answer: Answer) -> Verdict:
    """5xx, and redirects, which are not followed: Novita's API has none."""
    meaning = reasons.meaning(answer.reason)
    business = meaning not in (None, Meaning.FAULT)
    server_error = answer.status >= 500
    if server_error and business and meaning not in _NEEDS_4XX and not call.buys:
        return Verdict(refusal(call, answer))
    code = "NOVITA_TIMEOUT" if answer.status == 504 else "NOVITA_UNAVAILABLE"
    error = _open_ended(
        call, code, f"Novita failed to {call.what}: {answer.reason or f'HTTP {answer.status}'}"
    )
    error.details, error.retry_after = details(answer), answer.retry_after
    technical = server_error and not business
    return Verdict(error, counts=technical, again=technical)


def _open_ended(call: Call, code: str, why: str) -> OstlerError:
    """Whether it was done matters where doing it twice does."""
    return NovitaForNow(code, why) if call.harmless_twice else OutcomeUnclear(code, why)
