// What the API answers, as far as the page reads it; /openapi.json has the whole of it.

interface Fault {
  code: string;
  message: string;
  details?: Record<string, unknown>;
}

interface Port {
  port: number;
  type: string;
  endpoint: string;
}

interface Limits {
  stopAfter?: string;
  deleteAfter?: string;
  idleStopAfter?: string;
  deleteAfterStopped?: string;
  stopAt?: string;
  deleteAt?: string;
  idleGpuBelow?: number;
}

interface Expiry {
  stopAt?: string;
  stopReason?: string;
  deleteAt?: string;
  deleteReason?: string;
}

interface Cost {
  soFarUsd: string;
  perHourUsd: string;
  estimated?: boolean;
}

interface EndpointHealth {
  port: number;
  endpoint?: string;
  type: string;
  status: string;
  responseTime?: number;
  lastChecked?: string;
  error?: { category: string; message: string };
}

interface HealthResult {
  status?: string;
  overall?: string;
  endpoints?: EndpointHealth[];
}

interface Instance {
  instanceId: string;
  name: string;
  status: string;
  productName?: string;
  templateId?: string;
  gpuNum: number;
  rootfsSize?: number;
  billingMode: string;
  createdAt: string;
  updatedAt: string;
  region?: string;
  novitaInstanceId?: string;
  novitaStatus?: string;
  statusError?: string;
  productId?: string;
  pricePerGpuHour?: string;
  portMappings?: Port[];
  readyAt?: string;
  lastUsedAt?: string;
  lastSyncedAt?: string;
  missingSince?: string;
  nextCheckAt?: string;
  givesUpAt?: string;
  hasMachine?: boolean;
  stale?: boolean;
  spot?: { status: string; reclaimTime?: string };
  webhookUrl?: string;
  healthCheck?: HealthResult;
  operationId?: string;
  error?: Fault;
  waitingFor?: Fault;
  regionReasons?: Record<string, string>;
  cleanup?: { novitaInstanceId: string; action: string }[];
  tags?: Record<string, string>;
  limits?: Limits;
  expiry?: Expiry;
  protected?: boolean;
  endedBy?: string;
  cost?: Cost;
  owner?: string;
  envNames?: string[];
  networkVolumes?: { id: string; mountPath: string }[];
  onReclaim?: { action: string; window?: string; maxRecoveries?: number };
  recoveries?: number;
  recovering?: { since: string; until?: string; action?: string };
}

interface InstancesPage {
  instances: Instance[];
  total?: number;
  nextCursor?: string;
}

interface InstanceEvent {
  id: string;
  type: string;
  sequence: number;
  timestamp: string;
  status: string;
  actor: string;
  correlationId: string;
  novitaInstanceId?: string;
  elapsedTime?: number;
  reason?: string;
  error?: Fault;
  healthCheck?: HealthResult;
  operationId?: string;
  data?: Record<string, unknown>;
}

interface Operation {
  operationId: string;
  kind: string;
  status: string;
  actor: string;
  phases: { status: string; at: string }[];
  attempts: number;
  error?: Fault;
}

interface Delivery {
  id: string;
  eventType: string;
  url: string;
  state: string;
  createdAt: string;
  nextAttemptAt?: string;
  attempts: { attempt: number; at: string; tookMs?: number; status?: number; error?: string; answer?: string }[];
}

interface Interval {
  novitaInstanceId: string;
  kind: string;
  from: string;
  to?: string;
  usdPerHour?: string;
  amountUsd: string;
  estimated?: boolean;
  productId?: string;
  region?: string;
}

interface InstanceCost {
  instanceId: string;
  totalUsd: string;
  perHourUsd: string;
  estimated?: boolean;
  intervals: Interval[];
  billed?: Billed;
}

interface Billed {
  totalUsd: string;
  oursUsd: string;
  from: string;
  through: string;
  differs?: boolean;
}

interface Place {
  address?: string;
  command?: string;
  username?: string;
  password?: string;
}

interface Connection {
  instanceId: string;
  ssh?: Place;
  jupyter?: Place;
  webTerminal?: Place;
  logs?: { system?: string; instance?: string };
}

interface Quote {
  productId: string;
  productName: string;
  region: string;
  billingMode: string;
  gpuNum: number;
  pricePerGpuHour: string;
  pricePerHour: string;
  perHourUsd?: string;
  perDayUsd?: string;
  expiry?: Expiry;
  alternatives: { productId: string; productName: string; region: string; pricePerGpuHour: string }[];
  regions: Record<string, string>;
}

interface Product {
  id: string;
  name: string;
  regions: string[];
  available: boolean;
  pricePerGpuHour?: string;
  spotPricePerGpuHour?: string;
  cpuPerGpu: number;
  memoryPerGpu: number;
}

interface Template {
  id: string;
  name: string;
  image: string;
  private: boolean;
  ports: { port: number; type: string }[];
}

interface CostGroup {
  key: string;
  amountUsd: string;
  days: { date: string; amountUsd: string }[];
}

interface Costs {
  from: string;
  to: string;
  groupBy: string;
  totalUsd: string;
  estimated?: boolean;
  groups: CostGroup[];
  nextCursor?: string;
}

interface Budget {
  name: string;
  limitUsd: string;
  period: string;
  scope: "all" | { key?: string; tag?: { name: string; value: string } };
  thresholds: number[];
  action: string;
  spentUsd: string;
  periodStart: string;
  reached: number[];
}

interface ServiceStatus {
  purchasesPaused: boolean;
  pausedAt?: string;
  pausedBy?: string;
  lastSweepAt?: string;
  lastComparedAt?: string;
  comparisonComplete?: boolean;
  comparisonError?: Fault;
  machines?: number;
  missing?: number;
  orphans?: number;
  orphanDeletionsHeld?: number;
  stuckCleanups?: number;
  keyProven?: boolean;
  rateLimit: { limit: number; windowSeconds: number; used: number; usedBy: Record<string, number>; pausedUntil?: string };
  balance?: { availableUsd?: string; asOf: string };
}

interface Circuit {
  name: string;
  state: string;
  failures: number;
  openings: number;
  openUntil?: string;
}

interface JobStats {
  since: string;
  queues: Record<string, { depth: number; inFlight: number; delayed: number; dead: number; oldestAgeSeconds: number }>;
  deadLettersNotStored: number;
  jobs: Record<string, { done: number; refused: number; gaveUp: number; retried: number; dead: number }>;
}

interface DeadLetter {
  id: string;
  queue: string;
  instanceId?: string;
  deliveryId?: string;
  reason: Fault;
  error?: string;
  attempts: number;
  diedAt: string;
  redrivenAt?: string;
  body?: string;
}

interface CacheCounts {
  size: number;
  hits: number;
  misses: number;
  hitRatio: number;
  evictions: number;
}

interface CacheStats {
  shared: CacheCounts & { caches: Record<string, CacheCounts> };
  process: CacheCounts & { caches: Record<string, CacheCounts> };
}

interface Me {
  id: string;
  scopes: string[];
}
