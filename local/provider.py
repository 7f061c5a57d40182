"""Which Novita a local copy talks to: the simulator, or the real one."""

from collections.abc import Mapping
from dataclasses import dataclass

from functions.shared.platform.settings import Settings

REAL_ADDRESS = str(Settings.__dataclass_fields__["novita_api_base_url"].default)


@dataclass(frozen=True)
class RealNovita:
    key: str
    base_url: str = REAL_ADDRESS

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "RealNovita | None":
        if not (key := environment.get("NOVITA_API_KEY")):
            return None
        return cls(key, environment.get("NOVITA_API_BASE_URL") or REAL_ADDRESS)
