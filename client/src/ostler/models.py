"""What the service takes and answers, field by field as in its JSON; fields it adds later do no harm.

The class names are those of /openapi.json; a test holds the fields against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # noqa: UP035  # typing has it from 3.11 on; checkers know this


class FieldError(TypedDict):
    field: str
    code: str
    message: str


class Limits(TypedDict, total=False):
    stopAfter: str | int
    deleteAfter: str | int
    stopAt: str
    deleteAt: str
    idleStopAfter: str | int
    idleGpuBelow: float
    deleteAfterStopped: str | int


class Expiry(TypedDict, total=False):
    stopAt: str
    stopReason: str
    deleteAt: str
    deleteReason: str


class OnReclaim(TypedDict, total=False):
    action: str
    window: str | int
    maxRecoveries: int
    replaceAfter: str | int
    fallback: str


class Recovering(TypedDict):
    since: str
    action: str
    until: NotRequired[str]


class CostSoFar(TypedDict):
    soFarUsd: str
    perHourUsd: str
    estimated: NotRequired[bool]


class NetworkVolume(TypedDict):
    id: str
    mountPath: str


class EnvVar(TypedDict):
    key: str
    value: str


class Patch(TypedDict, total=False):
    """A JSON merge patch: null removes."""

    name: str
    tags: dict[str, str | None] | None
    webhookUrl: str | None
    limits: dict[str, Any] | None
    protected: bool
    onReclaim: str | OnReclaim | None


CostInterval = TypedDict(
    "CostInterval",
    {
        "novitaInstanceId": str,
        "kind": str,
        "from": str,
        "amountUsd": str,
        "to": "NotRequired[str]",
        "usdPerHour": "NotRequired[str]",
        "estimated": "NotRequired[bool]",
        "productId": "NotRequired[str]",
        "region": "NotRequired[str]",
    },
)


Billed = TypedDict(
    "Billed",
    {
        "totalUsd": str,
        "oursUsd": str,
        "from": str,
        "through": str,
        "asOf": str,
        "differs": "NotRequired[bool]",
    },
)


class InstanceCost(TypedDict):
    instanceId: str
    asOf: str
    totalUsd: str
    perHourUsd: str
    intervals: list[CostInterval]
    estimated: NotRequired[bool]
    billed: NotRequired[Billed]


class CostDay(TypedDict):
    date: str
    amountUsd: str


class CostGroup(TypedDict):
    key: str
    amountUsd: str
    days: list[CostDay]
    estimated: NotRequired[bool]


Costs = TypedDict(
    "Costs",
    {
        "from": str,
        "to": str,
        "groupBy": str,
        "asOf": str,
        "totalUsd": str,
        "groups": "list[CostGroup]",
        "estimated": "NotRequired[bool]",
        "nextCursor": "NotRequired[str]",
    },
)


class Budget(TypedDict):
    name: str
    limitUsd: str
    period: str
    scope: Any
    thresholds: list[int]
    action: str
    spentUsd: str
    periodStart: str
    periodEnd: str
    reached: list[int]


class Budgets(TypedDict):
    budgets: list[Budget]


class Deleted(TypedDict):
    name: str
    deleted: bool


class Accepted(TypedDict):
    instanceId: str
    status: str
    message: str
    novitaInstanceId: NotRequired[str]
    operationId: NotRequired[str]
    estimatedReadyTime: NotRequired[str]
    cost: NotRequired[CostSoFar]


class Attempt(TypedDict):
    attempt: int
    at: str
    tookMs: NotRequired[int]
    status: NotRequired[int]
    error: NotRequired[str]
    answer: NotRequired[str]


class Balance(TypedDict):
    availableUsd: NotRequired[str]
    cashUsd: NotRequired[str]
    creditLimitUsd: NotRequired[str]
    outstandingUsd: NotRequired[str]
    asOf: str


class CacheStats(TypedDict):
    shared: Side
    process: Side


class Cache(TypedDict):
    size: int
    bytes: NotRequired[int]
    hits: int
    misses: int
    sets: int
    hitRatio: float
    evictions: int
    ids: list[str]


class Checks(TypedDict):
    table: str
    queues: str
    circuits: dict[str, str]


class Circuit(TypedDict):
    name: str
    state: str
    failures: int
    epoch: int
    openings: int
    openUntil: NotRequired[str]


class Circuits(TypedDict):
    circuits: list[Circuit]


class CleanedUp(TypedDict):
    removed: int
    complete: bool


class Cleaned(TypedDict):
    shared: int
    process: int


class Cleanup(TypedDict):
    novitaInstanceId: str
    action: str


class Cleared(TypedDict):
    epoch: int
    message: str


class Comprehensive(TypedDict):
    instances: list[Entry]
    total: int
    sources: Sources
    performance: Performance
    nextCursor: NotRequired[str]
    stale: NotRequired[bool]


class Logs(TypedDict):
    system: NotRequired[str]
    instance: NotRequired[str]


class Connection(TypedDict):
    instanceId: str
    ssh: NotRequired[SecretPlace]
    jupyter: NotRequired[SecretPlace]
    webTerminal: NotRequired[SecretPlace]
    logs: NotRequired[Logs]


class CreateRequest(TypedDict):
    name: str
    productName: str
    templateId: str | int
    gpuNum: NotRequired[int]
    rootfsSize: NotRequired[int]
    region: NotRequired[str]
    regions: NotRequired[list[str]]
    webhookUrl: NotRequired[str]
    billingMode: NotRequired[str]
    maxPricePerGpuHour: NotRequired[float]
    placement: NotRequired[str]
    healthCheck: NotRequired[HealthCheck]
    maxWaitTime: NotRequired[int]
    onFailure: NotRequired[str]
    tags: NotRequired[dict[str, str]]
    limits: NotRequired[Limits]
    protected: NotRequired[bool]
    onReclaim: NotRequired[str | OnReclaim]
    envs: NotRequired[list[EnvVar]]
    networkVolumes: NotRequired[list[NetworkVolume]]


class Created(TypedDict):
    instanceId: str
    status: str
    message: str
    estimatedReadyTime: str
    region: NotRequired[str]
    limits: NotRequired[Limits]
    expiry: NotRequired[Expiry]
    protected: NotRequired[bool]


class DeadLetter(TypedDict):
    id: str
    queue: str
    instanceId: NotRequired[str]
    deliveryId: NotRequired[str]
    correlationId: NotRequired[str]
    reason: Fault
    error: NotRequired[str]
    attempts: int
    diedAt: str
    redrivenAt: NotRequired[str]
    body: NotRequired[str]


class DeadLetters(TypedDict):
    deadLetters: list[DeadLetter]
    nextCursor: NotRequired[str]


class Deliveries(TypedDict):
    deliveries: list[Delivery]
    nextCursor: NotRequired[str]


class Delivery(TypedDict):
    id: str
    instanceId: str
    eventId: str
    eventType: str
    url: str
    state: str
    createdAt: str
    nextAttemptAt: NotRequired[str]
    attempts: list[Attempt]


class Difference(TypedDict):
    instanceId: str
    novitaInstanceId: str
    action: str
    done: bool


class Entry(TypedDict):
    instanceId: NotRequired[str]
    name: str
    status: str
    productName: NotRequired[str]
    templateId: NotRequired[str]
    region: NotRequired[str]
    novitaInstanceId: NotRequired[str]
    novitaStatus: NotRequired[str]
    statusError: NotRequired[str]
    productId: NotRequired[str]
    pricePerGpuHour: NotRequired[str]
    portMappings: NotRequired[list[Port]]
    readyAt: NotRequired[str]
    lastUsedAt: NotRequired[str]
    lastSyncedAt: NotRequired[str]
    missingSince: NotRequired[str]
    stale: NotRequired[bool]
    spot: NotRequired[Spot]
    webhookUrl: NotRequired[str]
    healthCheck: NotRequired[dict[str, Any]]
    operationId: NotRequired[str]
    error: NotRequired[Fault]
    waitingFor: NotRequired[Fault]
    nextCheckAt: NotRequired[str]
    givesUpAt: NotRequired[str]
    hasMachine: NotRequired[bool]
    regionReasons: NotRequired[dict[str, str]]
    cleanup: NotRequired[list[Cleanup]]
    tags: NotRequired[dict[str, str]]
    clusterId: NotRequired[str]
    imageUrl: NotRequired[str]
    cpuNum: NotRequired[int]
    memory: NotRequired[int]
    volumeMounts: NotRequired[list[Mount]]
    endTime: NotRequired[str]
    source: str
    dataConsistency: str
    gpuNum: NotRequired[int]
    rootfsSize: NotRequired[int]
    billingMode: NotRequired[str]
    createdAt: NotRequired[str]
    updatedAt: NotRequired[str]
    limits: NotRequired[Limits]
    expiry: NotRequired[Expiry]
    protected: NotRequired[bool]
    endedBy: NotRequired[str]
    cost: NotRequired[CostSoFar]
    owner: NotRequired[str]
    onReclaim: NotRequired[OnReclaim]
    recoveries: NotRequired[int]
    recovering: NotRequired[Recovering]
    networkVolumes: NotRequired[list[NetworkVolume]]
    envNames: NotRequired[list[str]]


class Event(TypedDict):
    id: str
    type: str
    sequence: int
    timestamp: str
    status: str
    actor: str
    correlationId: str
    novitaInstanceId: NotRequired[str]
    elapsedTime: NotRequired[int]
    reason: NotRequired[str]
    error: NotRequired[Fault]
    healthCheck: NotRequired[dict[str, Any]]
    operationId: NotRequired[str]
    data: NotRequired[dict[str, Any]]


class Events(TypedDict):
    instanceId: str
    events: list[Event]
    nextCursor: NotRequired[str]


class Fault(TypedDict):
    code: str
    message: str
    details: NotRequired[dict[str, Any]]


class HealthCheck(TypedDict):
    timeoutMs: NotRequired[int]
    retryAttempts: NotRequired[int]
    retryDelayMs: NotRequired[int]
    maxWaitTimeMs: NotRequired[int]
    targetPort: NotRequired[int]
    path: NotRequired[str]


class Health(TypedDict):
    status: str
    service: str
    checks: NotRequired[Checks]


class ImportRequest(TypedDict):
    novitaInstanceId: str
    name: NotRequired[str]
    webhookUrl: NotRequired[str]
    limits: NotRequired[Limits]
    onReclaim: NotRequired[str | OnReclaim]


class Instance(TypedDict):
    instanceId: str
    name: str
    status: str
    productName: NotRequired[str]
    templateId: NotRequired[str]
    region: NotRequired[str]
    novitaInstanceId: NotRequired[str]
    novitaStatus: NotRequired[str]
    statusError: NotRequired[str]
    productId: NotRequired[str]
    pricePerGpuHour: NotRequired[str]
    portMappings: NotRequired[list[Port]]
    readyAt: NotRequired[str]
    lastUsedAt: NotRequired[str]
    lastSyncedAt: NotRequired[str]
    missingSince: NotRequired[str]
    stale: NotRequired[bool]
    spot: NotRequired[Spot]
    webhookUrl: NotRequired[str]
    healthCheck: NotRequired[dict[str, Any]]
    operationId: NotRequired[str]
    error: NotRequired[Fault]
    waitingFor: NotRequired[Fault]
    nextCheckAt: NotRequired[str]
    givesUpAt: NotRequired[str]
    hasMachine: NotRequired[bool]
    regionReasons: NotRequired[dict[str, str]]
    cleanup: NotRequired[list[Cleanup]]
    tags: NotRequired[dict[str, str]]
    gpuNum: int
    rootfsSize: NotRequired[int]
    billingMode: str
    createdAt: str
    updatedAt: str
    limits: NotRequired[Limits]
    expiry: NotRequired[Expiry]
    protected: NotRequired[bool]
    endedBy: NotRequired[str]
    cost: NotRequired[CostSoFar]
    owner: NotRequired[str]
    onReclaim: NotRequired[OnReclaim]
    recoveries: NotRequired[int]
    recovering: NotRequired[Recovering]
    networkVolumes: NotRequired[list[NetworkVolume]]
    envNames: NotRequired[list[str]]


class Instances(TypedDict):
    instances: list[Instance]
    total: NotRequired[int]
    nextCursor: NotRequired[str]
    stale: NotRequired[bool]


class JobStats(TypedDict):
    since: str
    queues: dict[str, Queue]
    deadLettersNotStored: int
    jobs: dict[str, Job]
    sweeps: Sweeps


class Job(TypedDict):
    pending: int
    inProgress: int
    done: int
    refused: int
    gaveUp: int
    retried: int
    dead: int


class Mount(TypedDict):
    type: str
    mountPath: str
    id: NotRequired[str]
    size: NotRequired[int]


class Offer(TypedDict):
    productId: str
    productName: str
    region: str
    pricePerGpuHour: str


class Operation(TypedDict):
    operationId: str
    instanceId: str
    kind: str
    status: str
    actor: str
    phases: list[Phase]
    attempts: int
    error: NotRequired[Fault]
    webhookUrl: NotRequired[str]


class Operations(TypedDict):
    instanceId: str
    operations: list[Operation]


class Overdue(TypedDict):
    instances: int
    deliveries: int
    events: int


class Pause(TypedDict):
    purchasesPaused: bool
    pausedAt: NotRequired[str]
    pausedBy: NotRequired[str]


class Performance(TypedDict):
    totalRequestTime: int
    novitaApiTime: int
    localDataTime: int
    mergeProcessingTime: int
    cacheHitRatio: float


class Phase(TypedDict):
    status: str
    at: str


class Port(TypedDict):
    port: int
    type: str
    endpoint: str


class Product(TypedDict):
    id: str
    name: str
    regions: list[str]
    available: bool
    billingMethods: list[str]
    pricePerGpuHour: NotRequired[str]
    spotPricePerGpuHour: NotRequired[str]
    cpuPerGpu: int
    memoryPerGpu: int
    minRootfsSize: int
    maxRootfsSize: NotRequired[int]


class Products(TypedDict):
    products: list[Product]


class Queue(TypedDict):
    depth: int
    inFlight: int
    delayed: int
    dead: int
    oldestAgeSeconds: int


class QuoteRequest(TypedDict):
    name: NotRequired[str]
    productName: str
    templateId: NotRequired[str | int]
    gpuNum: NotRequired[int]
    rootfsSize: NotRequired[int]
    region: NotRequired[str]
    regions: NotRequired[list[str]]
    webhookUrl: NotRequired[str]
    billingMode: NotRequired[str]
    maxPricePerGpuHour: NotRequired[float]
    placement: NotRequired[str]
    healthCheck: NotRequired[HealthCheck]
    maxWaitTime: NotRequired[int]
    onFailure: NotRequired[str]
    tags: NotRequired[dict[str, str]]
    limits: NotRequired[Limits]
    protected: NotRequired[bool]
    onReclaim: NotRequired[str | OnReclaim]
    envs: NotRequired[list[EnvVar]]
    networkVolumes: NotRequired[list[NetworkVolume]]


class Quote(TypedDict):
    productId: str
    productName: str
    region: str
    billingMode: str
    gpuNum: int
    pricePerGpuHour: str
    pricePerHour: str
    perHourUsd: str
    perDayUsd: str
    alternatives: list[Offer]
    regions: dict[str, str]
    limits: NotRequired[Limits]
    expiry: NotRequired[Expiry]


class RateLimit(TypedDict):
    limit: int
    windowSeconds: int
    used: int
    usedBy: dict[str, int]
    pausedUntil: NotRequired[str]


class Redriven(TypedDict):
    id: str
    instanceId: NotRequired[str]
    deliveryId: NotRequired[str]
    message: str


class Replayed(TypedDict):
    deliveryId: str
    eventId: str
    state: str
    nextAttemptAt: str
    message: str


class SecretPlace(TypedDict):
    address: NotRequired[str]
    command: NotRequired[str]
    username: NotRequired[str]
    password: NotRequired[str]


class Secret(TypedDict):
    origin: str
    secrets: list[str]


class Side(TypedDict):
    size: int
    bytes: NotRequired[int]
    hits: int
    misses: int
    sets: int
    hitRatio: float
    evictions: int
    ids: list[str]
    caches: dict[str, Cache]


class Sources(TypedDict):
    local: int
    novita: int
    merged: int


class Spot(TypedDict):
    status: str
    reclaimTime: NotRequired[str]


class StartRequest(TypedDict):
    healthCheckConfig: NotRequired[HealthCheck]
    targetPort: NotRequired[int]
    webhookUrl: NotRequired[str]
    limits: NotRequired[Limits]


class Me(TypedDict):
    id: str
    scopes: list[str]


class Status(TypedDict):
    purchasesPaused: bool
    pausedAt: NotRequired[str]
    pausedBy: NotRequired[str]
    lastSweepAt: NotRequired[str]
    lastComparedAt: NotRequired[str]
    comparisonComplete: NotRequired[bool]
    comparisonError: NotRequired[Fault]
    machines: NotRequired[int]
    missing: NotRequired[int]
    orphans: NotRequired[int]
    orphanDeletionsHeld: NotRequired[int]
    stuckCleanups: NotRequired[int]
    keyProven: NotRequired[bool]
    rateLimit: RateLimit
    balance: NotRequired[Balance]


class Sweeps(TypedDict):
    incomplete: int


class Sync(TypedDict):
    complete: bool
    dryRun: bool
    known: int
    missing: int
    stuck: int
    deletionsHeld: int
    overdue: Overdue
    followed: list[Difference]
    doubted: list[Difference]
    surplus: list[Difference]
    orphans: list[Difference]
    error: NotRequired[Fault]


class Template(TypedDict):
    id: str
    name: str
    image: str
    private: bool
    ports: list[dict[str, Any]]
    envs: list[str]
