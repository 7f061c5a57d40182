"""Where the service is and which key opens it: flags, environment, a profile, or a local copy nearby.

A key is only sent to the address that it was stored with, unless it is given by flag or environment.
"""

from __future__ import annotations

import configparser
import os
from dataclasses import dataclass
from pathlib import Path

from ostler.errors import OstlerError


class NotConfigured(OstlerError):
    """There is no address, or no key for it."""


@dataclass(frozen=True)
class Target:
    url: str
    key: str
    source: str


def config_path() -> Path:
    if given := os.environ.get("OSTLER_CONFIG"):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "ostler" / "config.ini"


def read_profiles() -> configparser.ConfigParser:
    profiles = configparser.ConfigParser(interpolation=None, default_section="ostler")
    profiles.read(config_path())
    return profiles


def write_profiles(profiles: configparser.ConfigParser) -> Path:
    """Readable by nobody else, from the first byte on: it holds keys."""
    path = config_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        profiles.write(file)
    part.replace(path)
    return path


def local_copy() -> Target | None:
    """Of `make run` in this folder or one above it, while it runs."""
    given = os.environ.get("OSTLER_STATE_DIR")
    here = Path.cwd()
    folders = [Path(given)] if given else [folder / ".local" for folder in (here, *here.parents)]
    for folder in folders:
        url, key = folder / "api-url", folder / "api-key"
        if url.is_file() and key.is_file():
            return Target(url.read_text().strip(), key.read_text().strip(), str(folder))
    return None


def find_target(url: str | None = None, key: str | None = None, profile: str | None = None) -> Target:
    """What is given explicitly comes first, then the profile, then the local copy."""
    stored = _profile(profile) or local_copy()
    if url:
        known = stored.key if stored and stored.url.rstrip("/") == url.rstrip("/") else None
        if not key and not known:
            raise NotConfigured(f"There is no key for {url}. Give it with --key or OSTLER_API_KEY.")
        return Target(url, key or known or "", "given")
    if stored is None:
        raise NotConfigured(
            "No address is known. Give --url and --key, set OSTLER_URL and OSTLER_API_KEY, "
            "store them with `ostler config set`, or run `make run` here."
        )
    return Target(stored.url, key or stored.key, stored.source)


def _profile(name: str | None) -> Target | None:
    profiles = read_profiles()
    chosen = name or profiles.defaults().get("profile")
    if not chosen:
        return None
    if not profiles.has_section(chosen):
        raise NotConfigured(f"No profile is called {chosen}. See: ostler config")
    return Target(profiles[chosen].get("url", ""), profiles[chosen].get("key", ""), f"profile {chosen}")
