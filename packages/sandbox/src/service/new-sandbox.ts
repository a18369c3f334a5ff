import { randomBytes, randomUUID } from "node:crypto";
import type { CreateOptions } from "../api.ts";
import type { SandboxSpec } from "../driver.ts";
import { newSandboxId } from "../ids.ts";
import type { SandboxRow } from "../sandbox-store.ts";

/** The record of a sandbox that is to be started. `prepared` tells whether the root of the spec is ready. */
export function newSandbox(
  userId: string,
  spec: SandboxSpec,
  options: Pick<CreateOptions, "id" | "network" | "snapshotId"> & { prepared: boolean; now: number },
): SandboxRow {
  const { id = newSandboxId(), network, snapshotId = null, prepared, now } = options;
  return {
    id,
    userId,
    specId: spec.id,
    status: "STARTING",
    statusDetail: null,
    incarnation: randomUUID(),
    sessionKey: randomBytes(32).toString("base64url"),
    createdAt: now,
    spec: network ? { ...spec, network: { ...spec.network, ...network } } : spec,
    prepared,
    snapshotId,
    lastUsedAt: now,
  };
}
