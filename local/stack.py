"""The whole service on one machine: what `make run` runs, and what end-to-end tests run against."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from local import credentials
from local.deploy import deploy
from local.emulator import Emulator
from local.forwarder import Forwarder
from local.fresh_start import (
    clear_state,
    require_same_novita,
    set_other_version_aside,
    wants_fresh,
)
from local.ports import HOST, Ports, require_free
from local.process import ChildProcess, kill_leftover_processes, write_process_groups
from local.server import SimulatorServer
from local.settings import LOOPBACK_ONLY, NOVITA_URL, validate
from local.state import StateDir
from local.synthesis import stack_template
from local.waiting import http_status, wait_until
from ops.command import CommandError
from ops.novita_account import NovitaAccount
from ops.stack import DeployedStack

HEALTH_SECONDS = 10  # of failing; a first answer that is only slow is waited for longer
LOCK_SECONDS = 15  # what a copy that is just stopping may still need


def silent(_line: str) -> None:
    pass


class LocalStack:
    """`with LocalStack(state_dir, ports, settings) as stack: requests.get(f"{stack.api_url}/health")`."""

    def __init__(
        self,
        state_dir: Path,
        ports: Ports,
        settings: Mapping[str, str] | None = None,
        *,
        real_novita: NovitaAccount | None = None,
        api_key: str | None = None,
        webhook_secret: str | None = None,
        fresh: str = "",
        say: Callable[[str], None] = silent,
    ) -> None:
        self.state = StateDir(state_dir)
        self.ports = ports
        self.api_url = f"http://{HOST}:{ports.api}"
        self.emulator = Emulator(
            self.state.path, ports.emulator, persist_dir=self.state.emulator, enforce_iam=True
        )
        self.simulator = SimulatorServer(self.state.path, ports.simulator, state_file=self.state.simulator)
        self.real_novita = real_novita
        self.novita_url = real_novita.base_url if real_novita else self.simulator.api_url
        self.settings = validate({**LOOPBACK_ONLY, **(settings or {}), NOVITA_URL: self.novita_url})
        self.deployed = DeployedStack((), {})
        self.api_key = api_key or ""
        self._webhook_secret = webhook_secret
        self._fresh = fresh
        self._say = say
        self._processes: list[ChildProcess] = []
        self._cleanup = ExitStack()
        self._ready = False
        self._clean_stops: list[bool] = []

    @property
    def simulator_url(self) -> str:
        return self.simulator.url

    @property
    def emulator_url(self) -> str:
        return self.emulator.url

    @property
    def outputs(self) -> Mapping[str, str]:
        return self.deployed.outputs

    @property
    def table_name(self) -> str:
        return self.deployed.table_name

    def __enter__(self) -> "LocalStack":
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._say("stopping")
        self._cleanup.close()

    def watch(self) -> None:
        """Raises if something that was started has ended."""
        for process in self._processes:
            if process.has_ended():
                raise CommandError(f"{process.module} has ended by itself: see {process.log}")

    def _start(self) -> None:
        fresh = wants_fresh(self._fresh)
        self.state.lock(LOCK_SECONDS)
        self._cleanup.callback(self.state.unlock)
        self.api_key = credentials.api_key(self.state.api_key, self.api_key or None)
        webhook_secret = credentials.webhook_secret(self.state.webhook_secret, self._webhook_secret)
        kill_leftover_processes(self.state.process_groups, self.state.path)
        for name, port in self._ports_used().items():
            require_free(port, name)
        template = stack_template(self._say)
        set_other_version_aside(self.state, self.real_novita, self._fresh, self._say)
        self.state.open()
        self._cleanup.callback(self._save_state)
        if not self.real_novita:
            self._say(f"starting the Novita simulator on {self.simulator.url}")
            self._run(self.simulator)
        if fresh:
            self._say("clearing the kept state")
            clear_state(self.state, self.simulator, self.real_novita, self._fresh)
        require_same_novita(self.state, self.real_novita)
        self._say(f"starting the AWS emulator on {self.emulator.url}")
        self._run(self.emulator)
        self._say("deploying the stack to it")
        self._say(f"the stack is {deploy(self.emulator, template, self.settings)}")
        self._put_credentials(webhook_secret)
        self._start_forwarder()
        self.state.api_url.write_text(f"{self.api_url}\n")
        self._cleanup.callback(self.state.api_url.unlink, missing_ok=True)
        self._ready = True

    def _run(self, program: SimulatorServer | Emulator) -> None:
        self._cleanup.callback(lambda: self._clean_stops.append(program.stop()))
        self._processes.append(program.start())
        write_process_groups(self.state.process_groups, [process.pid for process in self._processes])

    def _put_credentials(self, webhook_secret: str) -> None:
        """What a person does once after a first deploy: keys and secrets."""
        self.deployed = DeployedStack.read(self.emulator.client("cloudformation"))
        table, secrets = self.emulator.table(self.table_name), self.emulator.client("secretsmanager")
        credentials.put_api_key(table, self.api_key)
        credentials.put_deployment_id(table, self.state.deployment_id)
        novita_key = self.real_novita.key if self.real_novita else "local"
        credentials.put_secret(secrets, self.deployed.novita_secret_id, novita_key)
        credentials.put_secret(
            secrets, self.deployed.webhook_secret_id, credentials.webhook_secret_value(webhook_secret)
        )

    def _start_forwarder(self) -> None:
        target = f"{self.emulator.url}/_aws/execute-api/{self.deployed.api_id}/$default"
        forwarder = Forwarder(self.ports.api, target)
        forwarder.start()
        self._cleanup.callback(forwarder.stop)
        self._say("waiting for the first answer")
        if not wait_until(lambda: http_status(self.ports.api, "/health", timeout=30) == 200, HEALTH_SECONDS):
            log = self.state.log("functions")
            last_line = "".join(log.read_text().splitlines()[-1:])
            raise CommandError(f"{self.api_url}/health does not answer 200: see {log}\n{last_line}")

    def _save_state(self) -> None:
        """Only the state of a run that began and ended in order is worth keeping."""
        if self._ready and all(self._clean_stops):
            self.state.save()
        self.state.process_groups.unlink(missing_ok=True)

    def _ports_used(self) -> dict[str, int]:
        used = {"api": self.ports.api, "emulator": self.ports.emulator}
        return used if self.real_novita else {**used, "simulator": self.ports.simulator}
