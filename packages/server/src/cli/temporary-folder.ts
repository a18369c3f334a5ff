import { rmSync } from "node:fs";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Invoker } from "./invoker.ts";

/** A folder that is removed by `remove` or at the exit of the process. */
export interface TemporaryFolder {
  path: string;
  remove(): Promise<void>;
}

/** Creates a folder that only this user, or `user`, can read. */
export async function createTemporaryFolder(name: string, user?: Invoker): Promise<TemporaryFolder> {
  const path = await mkdtemp(join(tmpdir(), `sandpiper-${name}-`));
  const atExit = () => rmSync(path, { recursive: true, force: true });
  process.once("exit", atExit);
  if (user) await chown(path, user.uid, user.gid);
  return {
    path,
    remove: async () => {
      await rm(path, { recursive: true, force: true });
      process.off("exit", atExit);
    },
  };
}
