"""Settings of the functions as a local copy gets them: checked before anything is started."""

from collections.abc import Mapping
from dataclasses import MISSING, fields

from functions.shared.domain.errors import BadSettings
from functions.shared.platform.settings import Settings
from local.template import CONCURRENCY
from ops.command import RefusalError

# Webhooks and health checks may reach this machine, and no more than that.
LOOPBACK_ONLY = {"OUTBOUND_ALLOW_CIDRS": "127.0.0.1/32"}
NOVITA_URL = "NOVITA_API_BASE_URL"
AUTH = "AUTH"  # goes with the authorizer in the template, and the local one has none


def settings_from(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that people set; what the stack sets itself, like the table's name, is not theirs to give."""
    names = {item.name.upper() for item in fields(Settings) if item.default is not MISSING} | {CONCURRENCY}
    names.discard(AUTH)
    return {name: value for name, value in environment.items() if name in names}


def validate(settings: Mapping[str, str]) -> Mapping[str, str]:
    required = [item.name.upper() for item in fields(Settings) if item.default is MISSING]
    try:
        Settings.read({**dict.fromkeys(required, "https://made.by.the.stack"), **settings})
    except BadSettings as error:
        raise RefusalError(str(error)) from None
    concurrency = settings.get(CONCURRENCY, "10")
    if not concurrency.isdigit() or not 2 <= int(concurrency) <= 1000:
        raise RefusalError(f"{CONCURRENCY} is {concurrency!r}: must be a whole number from 2 to 1000")
    return settings
