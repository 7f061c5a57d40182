"""Routes that start, stop, restart and delete, by id or by name, and show how it went."""

from functools import partial
from typing import Annotated, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from functions.api.bodies import (
    OPERATION_ID,
    IdempotencyKey,
    InstanceId,
    NamedBody,
    NamedStartBody,
    RestartBody,
    StartBody,
    StopBody,
)
from functions.api.requests import caller, idempotent, use_case, wired
from functions.api.use_cases.operate_instance import Command, OperateInstance
from functions.api.use_cases.read_instances import find_instance
from functions.api.views import AcceptedView, OperationsView, OperationView, operation_view
from functions.shared.domain.instance.commands import (
    begin_delete,
    begin_release,
    begin_restart,
    begin_start,
    begin_stop,
)
from functions.shared.domain.instance.limits import LimitChange
from functions.shared.stores.idempotency import ApiResult

router = APIGatewayHttpRouter()

_OPERATIONS = ["operations"]


def _operate(instance_id: str, what: str, command: Command, key: str | None) -> Response[AcceptedView]:
    request = idempotent(f"{what} {instance_id}", key, router.current_event.json_body)
    return _accepted(use_case(OperateInstance)(instance_id, command, actor=caller().id, request=request))


def _operate_named(name: str, what: str, command: Command, key: str | None) -> Response[AcceptedView]:
    request = idempotent(f"{what} by name", key, router.current_event.json_body)
    return _accepted(use_case(OperateInstance).by_name(name, command, actor=caller().id, request=request))


def _accepted(result: ApiResult) -> Response[AcceptedView]:
    return Response(result.status, "application/json", cast("AcceptedView", result.body))


def _starting(body: StartBody | None) -> Command:
    body = body or StartBody()
    return partial(
        begin_start,
        check=body.config(wired().health_check),
        webhook_url=body.webhookUrl,
        limits=LimitChange(body.limits.asked() if body.limits else {}, wired().limit_rules),
    )


def _restarting(body: RestartBody | None) -> Command:
    body = body or RestartBody()
    return partial(begin_restart, check=body.config(wired().health_check), webhook_url=body.webhookUrl)


@router.post("/api/instances/start", summary="Start by name", tags=_OPERATIONS, status_code=202)
def start_named(
    body: Annotated[NamedStartBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response[AcceptedView]:
    return _operate_named(body.instanceName, "start", _starting(body), idempotency_key)


@router.post("/api/instances/stop", summary="Stop by name", tags=_OPERATIONS, status_code=202)
def stop_named(
    body: Annotated[NamedBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response[AcceptedView]:
    return _operate_named(body.instanceName, "stop", begin_stop, idempotency_key)


@router.post("/api/instances/delete", summary="Delete by name", tags=_OPERATIONS, status_code=202)
def delete_named(
    body: Annotated[NamedBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response[AcceptedView]:
    return _operate_named(body.instanceName, "delete", begin_delete, idempotency_key)


@router.post("/api/instances/<instance_id>/start", summary="Start", tags=_OPERATIONS, status_code=202)
def start(
    instance_id: InstanceId,
    body: Annotated[StartBody | None, Body()] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[AcceptedView]:
    return _operate(instance_id, "start", _starting(body), idempotency_key)


@router.post("/api/instances/<instance_id>/restart", summary="Restart", tags=_OPERATIONS, status_code=202)
def restart(
    instance_id: InstanceId,
    body: Annotated[RestartBody | None, Body()] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[AcceptedView]:
    return _operate(instance_id, "restart", _restarting(body), idempotency_key)


@router.post("/api/instances/<instance_id>/stop", summary="Stop", tags=_OPERATIONS, status_code=202)
def stop(
    instance_id: InstanceId,
    _: Annotated[StopBody | None, Body()] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[AcceptedView]:
    return _operate(instance_id, "stop", begin_stop, idempotency_key)


@router.delete(
    "/api/instances/<instance_id>", summary="Delete; idempotent", tags=_OPERATIONS, status_code=202
)
def delete(
    instance_id: InstanceId,
    release: Annotated[
        bool, Query(description="Leave the machine alone: for imported, missing and (admin) stuck ones")
    ] = False,
) -> Response[AcceptedView]:
    if release:
        return _operate(instance_id, "release", partial(begin_release, admin=caller().may("admin")), None)
    return _operate(instance_id, "delete", begin_delete, None)


@router.get("/api/operations/<operation_id>", summary="How an operation goes", tags=_OPERATIONS)
def operation(
    operation_id: Annotated[str, Path(max_length=64, description="op_ and a ULID", **OPERATION_ID)],
) -> OperationView:
    return operation_view(*wired().instances.operation(operation_id))


@router.get("/api/instances/<instance_id>/operations", summary="Its operations", tags=_OPERATIONS)
def operations(instance_id: InstanceId) -> OperationsView:
    find_instance(wired().instances, instance_id)
    found = wired().instances.operations(instance_id)
    return {"instanceId": instance_id, "operations": [operation_view(instance_id, one) for one in found]}
