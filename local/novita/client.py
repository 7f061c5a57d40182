"""A client of the simulator's control interface, for tests and benchmarks."""

from typing import Any, Literal, cast

import requests

from local.novita.wire import API_PREFIX

Json = dict[str, Any]
TIMEOUT_SECONDS = 30


class SimulatorError(Exception):
    """The simulator refused a control call; the text is its own."""


class Simulator:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/")
        self.api_url = self.base_url + API_PREFIX
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy and no .netrc lies between us and loopback

    def reset(self) -> None:
        self._call("POST", "/reset")

    def settings(self, **change: Any) -> Json:
        """Set what is named, in the names of the wire (`bootSeconds=1`); everything as it is then."""
        return self._call("PUT", "/settings", change) if change else self._call("GET", "/settings")

    def now(self) -> float:
        return float(self._call("GET", "/clock")["now"])

    def stand_still(self, now: float | None = None) -> float:
        """Virtual time from here on, at this moment or at the one given."""
        change: Json = {"mode": "virtual"} if now is None else {"mode": "virtual", "now": now}
        return float(self._call("POST", "/clock", change)["now"])

    def advance(self, seconds: float) -> float:
        return float(self._call("POST", "/clock", {"advanceSeconds": seconds})["now"])

    def instances(self) -> list[Json]:
        """Everything that was ever there, the removed ones too."""
        return cast(list[Json], self._call("GET", "/instances")["instances"])

    def live(self) -> list[Json]:
        return [one for one in self.instances() if one["removedAt"] is None]

    def instance(self, id_: str) -> Json:
        return self._call("GET", f"/instances/{id_}")

    def put_instance(self, **body: Any) -> Json:
        """Injects a machine: fields of a create body, and `status` or `ageSeconds`."""
        return self._call("POST", "/instances", body)

    def put_instances(self, count: int, **body: Any) -> list[str]:
        """So many at once, named `<name>-1` and on; their ids."""
        return cast(list[str], self._call("POST", "/instances", {**body, "count": count})["ids"])

    def patch_instance(self, id_: str, **change: Any) -> Json:
        return self._call("PATCH", f"/instances/{id_}", change)

    def hide(self, id_: str, seconds: float | None = None) -> None:
        """It lives on, and neither get nor list shows it: for so long, or until it is shown."""
        self.patch_instance(id_, **({"hidden": True} if seconds is None else {"hiddenSeconds": seconds}))

    def show(self, id_: str) -> None:
        self.patch_instance(id_, hidden=False)

    def reclaim(self, id_: str, in_seconds: float = 0, **more: Any) -> Json:
        """`notice=False`: without a word; `removed=True`; `noRoomSeconds`: starts are refused for so long."""
        return self._call("POST", f"/instances/{id_}/reclaim", {"inSeconds": in_seconds, **more})

    def products(self) -> list[Json]:
        return cast(list[Json], self._call("GET", "/products")["products"])

    def patch_product(self, id_: str, **change: Any) -> Json:
        return self._call("PATCH", f"/products/{id_}", change)

    def put_product(self, id_: str, **body: Any) -> Json:
        return self._call("PUT", f"/products/{id_}", body)

    def put_template(self, id_: str, **fields: Any) -> Json:
        return self._call("PUT", f"/templates/{id_}", fields)

    def put_auth(self, id_: str, name: str, username: str, password: str) -> None:
        self._call("PUT", f"/auths/{id_}", {"name": name, "username": username, "password": password})

    def put_storage(self, id_: str, region: str = "CN-HK-01", size: int = 100) -> None:
        """A network volume in that region."""
        clusters = {"CN-HK-01": "cn-hongkong-1", "AS-SGP-02": "as-sgp-2", "AS-IN-01": "as-in-1"}
        body = {"clusterId": clusters[region], "storageName": id_, "storageSize": size}
        self._call("PUT", f"/storages/{id_}", body)

    def fault(
        self,
        kind: Literal["status", "timeout", "disconnect", "garbage", "slow", "account", "stale"],
        path: str = "",
        method: str = "",
        match_query: str = "",
        match_body: str = "",
        **more: Any,
    ) -> Json:
        match = {"method": method, "path": path, "query": match_query, "body": match_body}
        return self._call("POST", "/faults", {"match": match, "kind": kind, **more})

    def faults(self) -> list[Json]:
        return cast(list[Json], self._call("GET", "/faults")["faults"])

    def clear_faults(self) -> None:
        self._call("DELETE", "/faults")

    def clear_fault(self, id_: str) -> None:
        self._call("DELETE", f"/faults/{id_}")

    def calls(self, path: str = "", method: str = "") -> list[Json]:
        found = self._call("GET", "/calls", query={"path": path, "method": method})
        return cast(list[Json], found["calls"])

    def clear_calls(self) -> None:
        self._call("DELETE", "/calls")

    def inbox_url(self, box: str) -> str:
        return f"{self.base_url}/_sim/inbox/{box}"

    def inbox(self, box: str) -> list[Json]:
        return cast(list[Json], self._call("GET", f"/inbox/{box}/messages")["messages"])

    def clear_inbox(self, box: str) -> None:
        self._call("DELETE", f"/inbox/{box}/messages")

    def answer(self, box: str, *sequence: Json, **answer: Any) -> None:
        """One answer by its fields, or several in a row; after those it is 200 again."""
        body: Json | list[Json] = list(sequence) if sequence else answer
        self._call("PUT", f"/inbox/{box}/answer", body)

    def app_url(self, id_: str, port: int) -> str:
        return f"{self.base_url}/_sim/app/{id_}/{port}"

    def app(self, id_: str = "*", port: int | str = "*", **answer: Any) -> None:
        """What the application behind a port answers; `*` stands for every machine or every port."""
        self._call("PUT", f"/app/{id_}/{port}", answer)

    def app_stats(self) -> Json:
        return self._call("GET", "/app/stats")

    def clear_app_stats(self) -> None:
        self._call("DELETE", "/app/stats")

    def _call(
        self,
        method: str,
        path: str,
        body: Json | list[Json] | None = None,
        query: dict[str, str] | None = None,
    ) -> Json:
        url = f"{self.base_url}/_sim{path}"
        response = self._session.request(method, url, json=body, params=query, timeout=TIMEOUT_SECONDS)
        answer = response.json()
        if not response.ok:
            raise SimulatorError(answer["error"])
        return cast(Json, answer)
