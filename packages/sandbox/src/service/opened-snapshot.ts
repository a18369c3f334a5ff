import { once } from "node:events";
import { PlatformError } from "@sandpiper/core/errors";
import type { PreparedSpec, SandboxDriver } from "../driver.ts";
import type { CommandRunner } from "../files/files.ts";
import { newSandboxId } from "../ids.ts";
import type { SnapshotRow } from "../sandbox-store.ts";

/** Time for the start, ms. */
const startMs = 60_000;

/** The files of a snapshot, to be read. */
export interface OpenedSnapshot {
  files: CommandRunner;
  /** Ends it. Never rejects. */
  close(): Promise<void>;
}

export interface OpenSnapshotDeps {
  driver: Pick<SandboxDriver, "start" | "exec" | "shell">;
  /** Ids that the engine may know: what is not among them is reaped. */
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
 * Opens a snapshot in a sandbox that nobody knows: it has no record, no way out and no key, so it is in no list and counts for no limit, and one that a
 * crash leaves belongs to nobody and is reaped. Throws SandboxFailed.
 */
export async function openSnapshot(
  options: OpenSnapshotDeps,
  snapshot: SnapshotRow,
): Promise<OpenedSnapshot> {
  const { driver, ids, snapshots, remove } = options;
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
    await Promise.race([start, late(AbortSignal.timeout(startMs))]);
  } catch (error) {
    await close();
    if (error instanceof PlatformError) throw error;
    throw new PlatformError("SandboxFailed", `The snapshot ${snapshot.id} could not be opened.`, {
      cause: error,
    });
  }
  return { files: { shell: driver.shell, exec: (command) => driver.exec(id, command) }, close };
}

async function late(signal: AbortSignal): Promise<never> {
  await once(signal, "abort");
  throw new PlatformError(
    "SandboxFailed",
    `A sandbox for a snapshot did not start within ${startMs / 1000} s; look at the load of the machine.`,
  );
}
