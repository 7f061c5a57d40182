"""Queues, their dead letters, and how fast they are worked off."""

import pytest

from tests.infra.template import QUEUES, Properties, Template


@pytest.mark.parametrize("name", QUEUES)
def test_it_has_dead_letters_of_its_own_kept_for_14_days(template: Template, name: str) -> None:
    dead = template.queue(name)["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]

    others = [
        template.queue(other)["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0] for other in QUEUES
    ]
    assert others.count(dead) == 1
    assert template.all("AWS::SQS::Queue")[dead]["MessageRetentionPeriod"] == 14 * 24 * 3600


@pytest.mark.parametrize("name", QUEUES)
def test_a_message_is_tried_once_and_retried_three_times(template: Template, name: str) -> None:
    assert template.queue(name)["RedrivePolicy"]["maxReceiveCount"] == 4


@pytest.mark.parametrize("name", QUEUES)
def test_a_message_stays_hidden_while_its_function_may_still_run(template: Template, name: str) -> None:
    assert template.queue(name)["VisibilityTimeout"] >= template.functions()[name]["Timeout"]


@pytest.mark.parametrize("name", QUEUES)
def test_its_function_takes_from_it_alone_and_reports_what_failed(template: Template, name: str) -> None:
    source = template.sources()[name]

    assert source["EventSourceArn"]["Fn::GetAtt"][0] == template.queue_id(name)
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


@pytest.mark.parametrize("name", QUEUES)
def test_its_dead_letters_are_buried_and_what_fails_is_reported(template: Template, name: str) -> None:
    source = template.dead_letter_sources()[name]
    function = template.all("AWS::Lambda::Function")[source["FunctionName"]["Ref"]]
    dead = template.all("AWS::SQS::Queue")[template.dead_queue_id(name)]

    assert function["Handler"] == "functions.dead_letters.handler.handler"
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["ScalingConfig"]["MaximumConcurrency"] == 2
    assert dead["VisibilityTimeout"] >= 6 * function["Timeout"]


@pytest.mark.parametrize("name", QUEUES)
def test_the_functions_know_its_dead_letter_queue(template: Template, name: str) -> None:
    variables = template.functions()["api"]["Environment"]["Variables"]

    assert variables[f"{name.upper()}_DEAD_QUEUE_URL"] == {"Ref": template.dead_queue_id(name)}


def test_nothing_else_is_fed_to_a_function(template: Template) -> None:
    assert len(template.all("AWS::Lambda::EventSourceMapping")) == 2 * len(QUEUES) + 1  # and the stream


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
