"""What whoever deployed is told to do next."""

import pytest

from ops.after_deploy import main
from ops.stack import DeployedStack


@pytest.mark.parametrize(("auth", "needs_a_key"), [("keys", True), ("jwt", False), ("iam", False)])
def test_a_key_is_asked_for_where_keys_let_in(
    auth: str, needs_a_key: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = {"ApiUrl": "https://a.example", "Auth": auth, "NovitaSecretId": "arn:secret"}
    monkeypatch.setattr(DeployedStack, "read", lambda _: DeployedStack((), outputs))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("NOVITA_API_KEY", raising=False)

    assert main() == 0

    said = capsys.readouterr().out
    assert "https://a.example" in said
    assert ("ops.keys create" in said) is needs_a_key
