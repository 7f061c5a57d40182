"""Queues, their dead letters, and how fast they are worked off."""

import pytest

from functions.shared.domain.messages import MORE_DELIVERIES
from local.paths import ROOT
from tests.infra.template import QUEUES, Properties, Template


def test_one_queue_keeps_the_dead_letters_of_all_for_14_days(template: Template) -> None:
    (dead,) = {
        template.queue(name)["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0] for name in QUEUES
    }

    assert template.queue("dead_letter")["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert dead == template.queue_id("dead_letter")
    assert len(template.all("AWS::SQS::Queue")) == len(QUEUES) + 1


@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_hands_a_message_out_more_often_than_it_may_fail(
    template: Template, chosen: Template, name: str
) -> None:
    """AWS counts throttled deliveries, too, and advises five at least."""
    assert template.queue(name)["RedrivePolicy"]["maxReceiveCount"] == 4 + MORE_DELIVERIES >= 5
    assert chosen.queue(name)["RedrivePolicy"]["maxReceiveCount"] == 6 + MORE_DELIVERIES


@pytest.mark.parametrize("name", QUEUES)
def test_a_message_stays_hidden_while_its_function_may_still_run(template: Template, name: str) -> None:
    assert template.queue(name)["VisibilityTimeout"] >= template.functions()[name]["Timeout"]


@pytest.mark.parametrize("name", QUEUES)
def test_its_function_takes_from_it_alone_and_reports_what_failed(template: Template, name: str) -> None:
    source = template.sources()[name]

    assert source["EventSourceArn"]["Fn::GetAtt"][0] == template.queue_id(name)
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_dead_letters_are_stored_and_what_fails_is_reported(template: Template) -> None:
    source, function = template.sources()["dead_letters"], template.functions()["dead_letters"]

    assert source["EventSourceArn"]["Fn::GetAtt"][0] == template.queue_id("dead_letter")
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["ScalingConfig"]["MaximumConcurrency"] == 2
    assert template.queue("dead_letter")["VisibilityTimeout"] >= 6 * function["Timeout"]


def test_nothing_else_is_fed_to_a_function(template: Template) -> None:
    sources = template.all("AWS::Lambda::EventSourceMapping")

    assert template.sources().keys() == {*QUEUES, "dead_letters", "announce"}
    assert len(sources) == len(template.sources())


def test_steps_that_are_slow_or_cost_money_come_one_at_a_time(template: Template) -> None:
    sizes = {name: template.sources()[name]["BatchSize"] for name in QUEUES}

    assert sizes == {"create": 1, "monitor": 5, "startup": 1, "webhook": 1}


def test_concurrency_is_bounded_for_each_queue(template: Template, chosen: Template) -> None:
    assert {template.sources()[name]["ScalingConfig"]["MaximumConcurrency"] for name in QUEUES} == {10}
    assert {chosen.sources()[name]["ScalingConfig"]["MaximumConcurrency"] for name in QUEUES} == {2}


def test_every_queue_is_encrypted_and_refuses_plain_connections(template: Template) -> None:
    queues = template.all("AWS::SQS::Queue")
    policies = template.all("AWS::SQS::QueuePolicy").values()

    assert all(queue["SqsManagedSseEnabled"] for queue in queues.values())
    assert {_refused_plain(policy) for policy in policies} == set(queues)


def _refused_plain(policy: Properties) -> str:
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    return str(policy["Queues"][0]["Ref"])


def test_what_the_reference_says_of_an_accounts_quota_follows_from_the_template(template: Template) -> None:
    text = (ROOT / "docs" / "reference.md").read_text().partition("**Concurrency.**")[2].partition("\n")[0]
    sources, functions = template.sources(), template.functions()
    at_once = {name: source.get("ScalingConfig", {}) for name, source in sources.items()}
    consumers = sum(one.get("MaximumConcurrency", 1) for one in at_once.values())  # the stream has one shard
    hidden = {name: template.queue(name)["VisibilityTimeout"] for name in QUEUES}
    tries = template.queue("create")["RedrivePolicy"]["maxReceiveCount"]

    assert at_once["dead_letters"] == {"MaximumConcurrency": 2}
    assert "announce" in at_once
    assert {hidden[name] / functions[name]["Timeout"] for name in QUEUES} == {6}
    assert f"With the default that is {consumers + 1} and what your callers need" in text  # and a sweep
    assert "six times the function's timeout" in text
    assert tries == 8
    assert "after eight of those" in text
    minutes = {name: tries * hidden[name] // 60 for name in QUEUES}
    assert f"({minutes['create']} minutes in `create`, {minutes['webhook']} in `webhook`)" in text
    assert minutes["create"] == max(minutes.values())
    assert minutes["webhook"] == min(minutes.values())
