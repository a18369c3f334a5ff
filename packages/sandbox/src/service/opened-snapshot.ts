import { once } from "node:events";
import { PlatformError } from "@sandpiper/core/errors";
import type { PreparedSpec, SandboxDriver } from "../driver.ts";
import type { CommandRunner } from "../files/files.ts";
import { newSandboxId } from "../ids.ts";
import type { SnapshotRow } from "../sandbox-store.ts";

const startTimeoutMs = 60_000;

/** Read access to the files of a snapshot. */
export interface OpenedSnapshot {
  files: CommandRunner;
  /** Never rejects. */
  close(): Promise<void>;
}

export interface OpenSnapshotDeps {
  driver: Pick<SandboxDriver, "start" | "exec" | "shell">;
  /** Ids that the engine may know; others are reaped. */
  ids: Set<string>;
  /** Keeps the snapshot while a sandbox begins with it. */
  snapshots: {
    hold(id: string, sandboxId: string): void;
    release(id: string, sandboxId: string): Promise<void>;
  };
  /** Removes a sandbox without a record. Never rejects. */
  remove(id: string): Promise<void>;
}

/**
 * Opens a snapshot in a temporary sandbox without record, network and key: no list shows it, no
 * limit counts it, and the reaper removes what a crash leaves. Throws SandboxFailed.
 */
export async function openSnapshot(deps: OpenSnapshotDeps, snapshot: SnapshotRow): Promise<OpenedSnapshot> {
  const { driver, ids, snapshots, remove } = deps;
  const id = newSandboxId();
  const spec = snapshot.spec as PreparedSpec;
  ids.add(id);
  snapshots.hold(snapshot.id, id);
  let isOpen = true;
  const close = async () => {
    if (!isOpen) return;
    isOpen = false;
    await remove(id);
    ids.delete(id);
    await snapshots.release(snapshot.id, id);
  };
  try {
    const start = driver.start({
      id,
      spec: { ...spec, command: null, network: { mode: "none", allow: [], credentials: [] } },
      snapshot: snapshot.id,
    });
    await Promise.race([start, rejectAtTimeout(AbortSignal.timeout(startTimeoutMs))]);
  } catch (error) {
    await close();
    if (error instanceof PlatformError) throw error;
    throw new PlatformError("SnapshotNotOpened", { id: snapshot.id }, { cause: error });
  }
  return { files: { shell: driver.shell, exec: (command) => driver.exec(id, command) }, close };
}

async function rejectAtTimeout(signal: AbortSignal): Promise<never> {
  await once(signal, "abort");
  throw new PlatformError("SnapshotOpenTimeout", { seconds: startTimeoutMs / 1000 });
}
