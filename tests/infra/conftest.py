"""Synthesis takes seconds, so each template is made once for all tests."""

import pytest

from tests.infra.template import Template, synthesise


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """What `cdk deploy` deploys when nothing is chosen."""
    return synthesise(tmp_path_factory.mktemp("default"))


@pytest.fixture(scope="session")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Everything chosen otherwise, in the strings that `cdk -c` gives."""
    return synthesise(
        tmp_path_factory.mktemp("chosen"),
        stage="test",
        ephemeral="true",
        MAX_RETRY_ATTEMPTS="5",
        MAX_CONCURRENT_JOBS="2",
        logRetention="ONE_WEEK",
        throttleBurst="7",
        throttleRate="3",
        auth="jwt",
        jwtIssuer="https://issuer.example",
        jwtAudience="ostler,others",
        corsOrigins="https://page.example",
        localApiId="0123abcd",
        alarmEmail="on-call@page.example",
        edge="cloudfront",
        watch="full",
        edgeRateLimit="500",
        domainName="gpu.page.example",
        certificateArn="arn:aws:acm:us-east-1:123456789012:certificate/1",
        settings='{"INSTANCE_POLL_INTERVAL": "10", "LOG_LEVEL": "WARNING"}',
    )


@pytest.fixture(scope="session")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Callers sign with AWS credentials; and what goes with neither of the others."""
    return synthesise(
        tmp_path_factory.mktemp("signed"),
        auth="iam",
        domainName="gpu.page.example",
        certificateArn="arn:aws:acm:eu-west-1:123456789012:certificate/1",
        subscriberAccounts="123456789012,210987654321",
        reserveReconcile="2",
        watch="off",
    )
