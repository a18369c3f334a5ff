import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { PreparedSpec } from "../driver.ts";
import type { Sandbox } from "../sandbox.ts";
import { SandboxAdopter } from "./adopter.ts";
import { SandboxCreation } from "./creation.ts";
import { DiskWatch } from "./disk-watch.ts";
import { EngineIds } from "./engine-ids.ts";
import { SandboxHandles } from "./handles.ts";
import type { IdlePolicy } from "./idle.ts";
import { IdleSandboxes } from "./idle-sandboxes.ts";
import { KernelWatch } from "./kernel-watch.ts";
import { SandboxLifetime } from "./lifetime.ts";
import { SandboxOperations } from "./operations.ts";
import type { SandboxServiceOptions } from "./options.ts";
import { Orphans } from "./orphans.ts";
import { SandboxProcesses } from "./processes.ts";
import { noQuotas } from "./quotas.ts";
import { Reaper } from "./reaper.ts";
import { SandboxRegistry } from "./registry.ts";
import { SandboxReleaser } from "./releaser.ts";
import { runStopped } from "./run-stopped.ts";
import { listRunning } from "./runtime-state.ts";
import { SandboxSlots } from "./slots.ts";
import { SnapshotService } from "./snapshots.ts";
import { SpecChoice } from "./spec-choice.ts";
import { SandboxStarter } from "./starter.ts";
import { SandboxSuspender } from "./suspender.ts";
import { SandboxUse } from "./use.ts";
import { UserDisk } from "./user-disk.ts";
import { UserImages } from "./user-images.ts";
import { SandboxWaking } from "./waking.ts";

/** The parts that a sandbox service calls. */
export interface ServiceParts {
  specs: SpecChoice;
  snapshots: SnapshotService;
  registry: SandboxRegistry;
  creation: SandboxCreation;
  operations: SandboxOperations;
  waking: SandboxWaking;
  lifetime: SandboxLifetime;
}

const never: IdlePolicy = { pauseAfterMs: 0, hibernateAfterMs: 0, deleteAfterMs: 0 };

/** Connects the parts of a sandbox service. */
export function createParts(options: SandboxServiceOptions): ServiceParts {
  const { driver, store, egress, kept, logger, now = Date.now } = options;
  const { startTimeoutMs = 30_000, prepareTimeoutMs = 1_200_000 } = options;
  const specs = new SpecChoice(options);
  const ids = new Set<string>();
  const mutex = new KeyedMutex();
  const quotas = { ...noQuotas, ...options.quotas };
  const images = new UserImages({
    owner: (id) => registry.states.get(id)?.userId,
    snapshots: store.snapshots,
    ...{ specs: options.specs, max: quotas.images },
    everywhere: options.shared && ((userId) => store.sandboxes.listByUser(userId)),
  });
  const timeouts = { startMs: startTimeoutMs, prepareMs: prepareTimeoutMs };
  const processes = new SandboxProcesses({ driver, egress, images, kept, logger, timeouts });
  const snapshots = new SnapshotService({
    driver,
    store: store.snapshots,
    temporary: { ids, remove: (id) => processes.remove(id) },
    rules: { now, maxPerUser: quotas.snapshots, isAwaitedElsewhere: (id) => known.isAwaited(id) },
    kept,
    withStopped: (userId, id, work) =>
      operations.run(userId, id, (row) => runStopped(stopping(), row, () => work(row))),
  });
  const stopping = () => ({ driver, store: store.sandboxes, registry, processes, starter, logger });
  const registry = new SandboxRegistry({
    store: store.sandboxes,
    shared: options.shared,
    ids,
    snapshots,
    now,
    quota: { max: quotas.sandboxes, requireDisk: (userId) => users.require(userId) },
  });
  const users = new UserDisk({
    states: registry.states,
    measure: async (id) => (await driver.usage(id)).diskBytes,
    snapshots: {
      owners: () => store.snapshots.owners(),
      measure: (...ids) => driver.snapshotBytes(...ids),
    },
    maxBytes: quotas.userDiskBytes,
  });
  const suspender = new SandboxSuspender({ registry, processes, driver, logger });
  const slots = new SandboxSlots({
    states: registry.states,
    maxPerUser: options.maxPerUser ?? 0,
    shared: options.sharedSlots,
    pauseIdle: (id) => operations.yieldSlot(id),
  });
  const starter = new SandboxStarter({
    registry,
    processes,
    slots,
    mutex,
    getSpec: (row) => specs.ofRow(row),
    logger,
  });
  const operations = new SandboxOperations({ registry, processes, suspender, starter, slots, mutex });
  const { states } = registry;
  const steady = options.steady ?? (() => performance.now());
  const idle = new IdleSandboxes({
    policy: options.idle ?? never,
    states,
    egress,
    perform: {
      pause: (id, isDue) => operations.pauseIdle(id, isDue),
      hibernate: (id, isDue) => operations.hibernateIdle(id, isDue),
      delete: (id, isDue) => operations.removeIdle(id, isDue),
      storeUse: (state) => registry.storeUse(state),
    },
    clock: { now, steady },
    logger,
  });
  const known = new EngineIds({ store, own: [ids, snapshots.ids], isShared: !!options.shared });
  const orphans = new Orphans({ driver, egress, known, logger, steady });
  const disk = new DiskWatch({
    running: () => listRunning(states),
    usage: (id, bounds) => driver.usage(id, bounds),
    stop: (id, reason) => operations.stop(id, reason),
    disk: {
      space: options.space ?? (async () => undefined),
      maxFiles: quotas.files || Number.MAX_SAFE_INTEGER,
      users,
    },
    now: steady,
    logger,
  });
  const kernel = new KernelWatch({
    running: () => listRunning(states),
    measure: (id, bounds) => driver.uncountedBytes(id, bounds),
    stop: (id, reason) => operations.stop(id, reason),
    logger,
  });
  const { reapIntervalMs: intervalMs = 0 } = options;
  const reaper = new Reaper({ idle, disk, kernel, orphans, logger, intervalMs });
  const use = new SandboxUse({ states, now, disk });
  const handles = new SandboxHandles({
    driver,
    states,
    use,
    settled: (id) => mutex.idle(id),
    wake: (id): Promise<Sandbox> => waking.running(id),
    facts: {
      environment: (row) => processes.environment(row, row.spec as PreparedSpec),
      watchProblems: egress && ((id) => egress.watchProblems(id)),
      diskRoom: (row) =>
        Math.min((row.spec as PreparedSpec).limits.diskBytes, users.room(row.userId, row.id)),
    },
  });
  const waking = new SandboxWaking({ registry, operations, starter, mutex, use, handles });
  const adopter = new SandboxAdopter({ driver, store: store.sandboxes, registry, images, starter, kept });
  const releaser = new SandboxReleaser({ registry, egress, kept, mutex, logger });
  const lifetime = new SandboxLifetime({ options, snapshots, adopter, releaser, operations, reaper });
  const creation = new SandboxCreation({ specs, snapshots, registry, starter });
  return { specs, snapshots, registry, creation, operations, waking, lifetime };
}
