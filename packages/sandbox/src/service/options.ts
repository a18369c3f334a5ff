import type { Logger } from "@sandpiper/core/log/logger";
import type { SandboxDriver } from "../driver.ts";
import type { Egress } from "../network/api.ts";
import type { SandboxStore, SnapshotStore } from "../sandbox-store.ts";
import type { DiskSpace } from "./disk-space.ts";
import type { IdlePolicy } from "./idle.ts";
import type { KeptFiles } from "./kept-files.ts";
import type { SandboxQuotas } from "./quotas.ts";
import type { SharedSandboxes, SharedSlots } from "./shared-sandboxes.ts";
import type { SpecChoiceDeps } from "./spec-choice.ts";

/** What a sandbox service works with. */
export interface SandboxServiceOptions extends SpecChoiceDeps {
  driver: SandboxDriver;
  store: { sandboxes: SandboxStore; snapshots: SnapshotStore };
  /** Network access of sandboxes; without it there is none. */
  egress?: Egress;
  idle?: IdlePolicy;
  /** Running sandboxes of a user; 0: no limit. */
  maxPerUser?: number;
  quotas?: Partial<SandboxQuotas>;
  /** Set when other servers use the same store: this server handles only sandboxes it owns. */
  shared?: SharedSandboxes | undefined;
  sharedSlots?: SharedSlots | undefined;
  /** Copies of files in the shared blobs; undefined without shared blobs. */
  kept?: KeptFiles | undefined;
  /** Space on the filesystem that holds the sandboxes. */
  space?: () => Promise<DiskSpace | undefined>;
  logger: Pick<Logger, "info" | "warn" | "error">;
  startTimeoutMs?: number;
  prepareTimeoutMs?: number;
  /** Interval of the reaper, ms; 0: only when `reaper.tick` is called. */
  reapIntervalMs?: number;
  /** Milliseconds since the epoch. */
  now?: () => number;
  /** Milliseconds of a monotonic clock. */
  steady?: () => number;
}
