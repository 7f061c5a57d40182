"""The environment of the emulator and, through it, of the functions: only what is named here gets in."""

import os
from pathlib import Path

from local.ports import HOST

# Behind a proxy the real Novita is reached with these.
WAY_OUT = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


def emulator_environment(
    port: int, scratch: Path, kept_in: Path | None, *, enforce_iam: bool
) -> dict[str, str]:
    """No AWS_* variables and no home: a function must find what the stack gives it, and nothing else."""
    passed_on = {name: os.environ[name] for name in ("PATH", *WAY_OUT) if name in os.environ}
    return {
        **passed_on,
        "NO_PROXY": HOST,
        "no_proxy": HOST,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "BIND_HOST": HOST,
        "MINISTACK_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "AUTH": str(enforce_iam).lower(),
        # Two services that would open ports of their own.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        **(_kept(kept_in) if kept_in else {}),
    }


def _kept(folder: Path) -> dict[str, str]:
    state = {"PERSIST_STATE": "1", "STATE_DIR": str(folder)}
    return {**state, "S3_PERSIST": "1", "S3_DATA_DIR": str(folder / "s3")}
