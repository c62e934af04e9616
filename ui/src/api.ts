// Made by `python -m headway.api.typescript > ui/src/api.ts`; a test keeps it so. Nothing here is written by hand.

export interface Accepted {
  accepted: boolean
  id: string | null
  code: string
  rev: number
  warning: string | null
  facts: Record<string, unknown>
}

export interface AddBody {
  placement?: "gap" | "share" | "yield" | "window" | null
  priority?: number | null
  after?: string[] | null
  after_ok?: string[] | null
  retries?: number | null
  max_runtime_s?: number | null
  stall_after_s?: number | null
  oom_exit_code?: number | null
  goal?: string | null
  tags?: string[] | null
  labels?: Record<string, string> | null
  colour?: string | null
  recipe?: string | null
  argv?: string[] | null
  name?: string | null
  gpu?: string | number | null
  gpus?: number | null
  hold?: boolean
  resumable?: boolean | null
  driver?: string | null
  cwd?: string | null
  env?: Record<string, string>
  options?: Record<string, unknown>
  dry_run?: boolean
  ask_key?: string | null
}

export interface AlertSent {
  way: string
  sent: boolean
  error: string | null
}

export interface Answered {
  id: string
  accepted: boolean
  code: string
  detail: string | null
  facts: Record<string, unknown>
}

export interface Applied {
  file: string
  applied: boolean
  changes: ConfigChange[]
  draining: string[]
}

export interface ApplyBody {
  drain?: boolean
  dry_run?: boolean
}

export interface AskBody {
  name?: string
  gpu?: string | number | null
  gpus?: number | null
  devices?: string[]
  pid?: number | null
  priority?: number
  preemptible?: boolean
  wait_s?: number | "forever" | null
  ttl_s?: number | null
  ask_key?: string | null
  purpose?: string | null
}

export interface BudgetRow {
  requests: number
  share: number
  max_share: number
  mean_s: number
  max_mean_s: number
}

export interface ClaimBody {
  name?: string | null
  pid?: number | null
  match?: string | null
  gpu?: string | number | null
  devices?: string[]
  block?: boolean
  purpose?: string | null
  asker?: number | null
}

export interface ConfigChange {
  what: string
  when: "now" | "next_start" | "restart"
}

export interface DayRow {
  day: string
  job_gpu_s: number
  lease_gpu_s: number
  requests: number
  waited: number
  waited_s: number
  put_aside: number
  brought_back: number
  failed_moves: number
}

export interface DeviceRow {
  id: string
  name: string
  index: number
  total_bytes: number | null
  used_bytes: number | null
  free_bytes: number | null
  foreign_bytes: number
  reserve_bytes: number
  confidence: string
  pool: string
  read_age_s: number | null
  trouble: string | null
  holders: Share[]
  strangers: Stranger[]
  model: string | null
  util_percent: number | null
  temp_c: number | null
  power_w: number | null
}

export interface EditBody {
  placement?: "gap" | "share" | "yield" | "window" | null
  priority?: number | null
  after?: string[] | null
  after_ok?: string[] | null
  retries?: number | null
  max_runtime_s?: number | null
  stall_after_s?: number | null
  oom_exit_code?: number | null
  goal?: string | null
  tags?: string[] | null
  labels?: Record<string, string> | null
  colour?: string | null
}

export interface EngineRow {
  tokens_per_s: number | null
  first_token_s: number | null
  cache_share: number | null
  prefix_hit_share: number | null
}

export interface EventLine {
  id: number
  code: string
  holder: string | null
  facts: Record<string, unknown>
  wall_s: number
  time: string
  sentence: string
}

export interface FoundServer {
  kind: string
  url: string
  models: string[]
}

export interface GapRow {
  sentence: string
  age_s: number
  talks: number | null
  likely_s: number | null
  curve: unknown[][]
  price: number
  wait_price: number
  max_mean_wait_s: number
  max_waiting_share: number
  follower_s: number
  waits: WaitsRow[]
}

export interface Health {
  status: "ok" | "stuck"
  loop_age_s: number
  rev: number
  link: "ok" | "no_gate" | "not_connected"
  gates_living: number
  gates_connected: number
  version: string
}

export interface HostRow {
  cpus: number
  cpu_percent: number | null
  memory_bytes: number
  free_bytes: number
}

export interface InForce {
  file: string
  etag: string
  config: Record<string, unknown>
}

export interface JobPage {
  jobs: JobRow[]
  next: string | null
}

export interface JobRow {
  id: string
  kind: string
  name: string
  state: string
  in_state_s: number
  devices: string[]
  bytes: number | null
  need_bytes: number | null
  code: string
  why: string
  wish: string
  wish_by: string | null
  note: string | null
  failures: number
  declared_bytes: number | null
  learned_bytes: number | null
  recipe: string | null
  lane: string
  position: number | null
  may_start: boolean
  priority: number
  placement: string
  driver: string
  step_aside: string
  argv: string[]
  after: string[]
  age_s: number
  ran_s: number
  started: boolean
  progress: number | null
  saved_age_s: number | null
  saved_point: string | null
  saves: boolean
  saves_every_s: number | null
  unsaved_s: number | null
  lost_s: number
  lost: LostRow[]
  left_s: number | null
  left_low_s: number | null
  left_high_s: number | null
  max_runtime_s: number | null
  attempts_left: number
  exit_code: number | null
  ended_s: number | null
  run: string | null
  runs: number
  pid: number | null
  stalled: boolean
  healthy: boolean | null
  alone: boolean
  summary: string | null
  goal: string | null
  tags: string[]
  labels: Record<string, string>
  colour: string | null
}

export interface LeaseRow {
  id: string
  kind: string
  name: string
  state: string
  in_state_s: number
  devices: string[]
  bytes: number | null
  need_bytes: number | null
  code: string
  why: string
  wish: string
  wish_by: string | null
  note: string | null
  failures: number
  by: string
  purpose: string | null
  priority: number
  preemptible: boolean
  block: boolean
  position: number | null
  age_s: number
  held_s: number | null
  expires_in_s: number | null
  fencing: number
  pid: number | null
  match: string | null
  ttl_s: number | null
  wait_limit_s: number | null
  would_s: number | null
  env: Record<string, string>
  ended: string | null
  ended_s: number | null
}

export interface LogTail {
  id: string
  run: string | null
  state: string
  lines: string[]
  path: string | null
}

export interface LostRow {
  run: string | null
  cause: string
  why: string
  lost_s: number
  at_ran_s: number
}

export interface Many {
  results: Answered[]
  rev: number
  dry_run: boolean
}

export interface MemoryBucket {
  at_s: number
  looks: number
  used_bytes: number
  peak_bytes: number
  foreign_bytes: number
  bytes: Record<string, number>
  busy: Record<string, number>
}

export interface MemoryHolder {
  id: string
  kind: string
  name: string
}

export interface MemoryOverTime {
  device: string
  name: string
  total_bytes: number | null
  from_s: number
  to_s: number
  step_s: number
  holders: MemoryHolder[]
  buckets: MemoryBucket[]
}

export interface ModeBody {
  mode: "shadow" | "live"
}

export interface MoveBody {
  target: string | string[]
  where: "top" | "bottom" | "before" | "after"
  other?: string | null
}

export interface Outlook {
  next: string | null
  jobs: number
  unknown: number
  left_s: number
  low_s: number
  high_s: number
  gpu_hours: number
}

export interface Overview {
  mode: string
  mode_by: string | null
  windows: WindowRow[]
  prod_only_by: string | null
  queue_held_by: string | null
  rev: number
  up_s: number
  devices: DeviceRow[]
  jobs: Record<string, number>
  troubles: Trouble[]
  order: string | null
  ended: Record<string, number>
  wrong_24h: number
  services: ServiceRow[]
  running: JobRow[]
  queued: JobRow[]
  leases: LeaseRow[]
  gate: string | null
  host: HostRow | null
}

export interface PinBody {
  pin: string
}

export interface Problem {
  type: string
  title: string
  status: number
  code: string
  detail: string
  facts: Record<string, unknown>
  holder: string | null
  position: number | null
  retry_after_s: number | null
}

export interface ProdOnlyBody {
  on: boolean
}

export interface Readiness {
  status: "ok" | "not ready"
  troubles: Trouble[]
}

export interface ReasonBody {
  reason?: string | null
  anyway?: boolean
  at_saved_point?: boolean
}

export interface RecipeRow {
  name: string
  goal: string | null
  gpus: number
  need_bytes: number | null
  placement: string
  priority: number
  tags: string[]
}

export interface RenewBody {
  ttl_s?: number | null
}

export interface RequestRow {
  id: number
  source: string
  offset: number
  service: string | null
  class: string | null
  started: number | null
  status: number | null
  waited_s: number | null
  failed: boolean
  doc: Record<string, unknown>
}

export interface Row {
  id: string
  kind: string
  name: string
  state: string
  in_state_s: number
  devices: string[]
  bytes: number | null
  need_bytes: number | null
  code: string
  why: string
  wish: string
  wish_by: string | null
  note: string | null
  failures: number
}

export interface RunRow {
  run: string
  number: number
  state: string
  ran_s: number | null
  exit_code: number | null
  error: string | null
  peak_host_bytes: number | null
  pid: number | null
}

export interface SelectBody {
  reason?: string | null
  anyway?: boolean
  at_saved_point?: boolean
  targets?: string[]
  all?: boolean
  dry_run?: boolean
  changes?: EditBody | null
}

export interface ServiceDetail {
  id: string
  kind: string
  name: string
  state: string
  in_state_s: number
  devices: string[]
  bytes: number | null
  need_bytes: number | null
  code: string
  why: string
  wish: string
  wish_by: string | null
  note: string | null
  failures: number
  driver: string
  models: string[]
  upstream: string | null
  ready: boolean
  gate: string
  active: number | null
  engine_active: number | null
  waiting: number
  waiting_s: number | null
  quiet_s: number | null
  window: string | null
  called_by: string | null
  dismissed_by: string | null
  counted_bytes: number | null
  times: TimesRow[]
  budget: BudgetRow | null
  engine: EngineRow | null
  run: string | null
  pid: number | null
  gap: GapRow | null
}

export interface ServiceRow {
  id: string
  kind: string
  name: string
  state: string
  in_state_s: number
  devices: string[]
  bytes: number | null
  need_bytes: number | null
  code: string
  why: string
  wish: string
  wish_by: string | null
  note: string | null
  failures: number
  driver: string
  models: string[]
  upstream: string | null
  ready: boolean
  gate: string
  active: number | null
  engine_active: number | null
  waiting: number
  waiting_s: number | null
  quiet_s: number | null
  window: string | null
  called_by: string | null
  dismissed_by: string | null
  counted_bytes: number | null
  times: TimesRow[]
  budget: BudgetRow | null
  engine: EngineRow | null
  run: string | null
  pid: number | null
}

export interface SessionBegun {
  csrf: string
  expires_in_s: number
  scopes: string[]
}

export interface SessionBody {
  pin?: string | null
  ticket?: string | null
}

export interface Share {
  id: string
  kind: string
  name: string
  state: string
  bytes: number | null
  need_bytes: number | null
}

export interface Span {
  id: string
  kind: string
  name: string
  state: string
  devices: string[]
  begins_s: number | null
  begins_low_s: number | null
  begins_high_s: number | null
  ends_s: number | null
  ends_low_s: number | null
  ends_high_s: number | null
  code: string | null
}

export interface Stranger {
  pid: number
  bytes: number
  name: string | null
}

export interface SwapRow {
  id: number
  wall_s: number
  service: string | null
  source: string | null
  to: string | null
  took_s: number | null
  failed: boolean
  cause: string | null
  why: string
}

export interface Ticket {
  url: string
  expires_in_s: number
}

export interface Timeline {
  spans: Span[]
  more: number
}

export interface TimesRow {
  form: string
  down_s: number | null
  back_s: number | null
}

export interface TokenBody {
  name: string
  scopes: ("read" | "submit" | "lease" | "control" | "exec" | "admin")[]
  class?: "attended" | "background"
  priority_max?: number
  expires_in_s?: number | null
}

export interface TokenMade {
  token: string
  row: TokenRow
}

export interface TokenRow {
  id: string
  name: string
  scopes: string[]
  class_: "attended" | "background"
  priority_max: number
  created_s: number
  expires_s: number | null
}

export interface Trouble {
  code: string
  sentence: string
  id: string | null
}

export interface WaitingPage {
  requests: WaitingRow[]
  more: number
}

export interface WaitingRow {
  id: string
  service: string
  model: string | null
  client: string | null
  attended: boolean
  position: number
  waited_s: number
  likely_s: number | null
  at_most_s: number | null
  why: string
}

export interface WaitsRow {
  over: string
  requests: number
  waited: number
  share: number
  mean_s: number
}

export interface Who {
  name: string
  via: string
  scopes: string[]
  pin_set: boolean
}

export interface Why {
  id: string
  kind: string
  state: string
  code: string
  sentence: string
  facts: Record<string, unknown>
  until_s: number | null
  help: string | null
}

export interface WindowBody {
  kind: "slow_wake" | "no_model"
  for_s: number
  services?: string[]
}

export interface WindowRow {
  id: string
  kind: string
  services: string[]
  state: string
  begins_in_s: number
  ends_in_s: number
  ends_wall_s: number | null
  by: string
  stopped_by: string | null
}
