"""Which variables of a shell reach the functions of a local copy."""

from local.settings import settings_from


def test_only_settings_that_people_set_are_taken_from_the_shell() -> None:
    shell = {
        "INSTANCE_POLL_INTERVAL": "2",
        "MAX_CONCURRENT_JOBS": "3",
        "TABLE_NAME": "somebody-elses",
        "AUTH": "jwt",  # without an authorizer in front, nobody could get in
        "PATH": "/bin",
    }

    assert settings_from(shell) == {"INSTANCE_POLL_INTERVAL": "2", "MAX_CONCURRENT_JOBS": "3"}
