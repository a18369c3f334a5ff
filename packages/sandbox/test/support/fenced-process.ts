import { type ChildProcess, spawn } from "node:child_process";
import type { Fence } from "../../src/driver.ts";
import { OciDriver } from "../../src/drivers/oci/oci-driver.ts";
import { runToEnd } from "../../src/shell/run.ts";

export interface FencedOrder {
  dir: string;
  id: string;
  fence: Fence;
  /** Shell text that the process runs again and again until the sandbox refuses it. */
  script: string;
}

/** Starts a process that runs commands as one owner, and prints each exit code in a line. */
export function startFencedProcess(order: FencedOrder): ChildProcess {
  return spawn(process.execPath, [import.meta.filename, JSON.stringify(order)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
}

async function serve({ dir, id, fence, script }: FencedOrder): Promise<void> {
  const driver = new OciDriver({ dir });
  await driver.open();
  const exec: OciDriver["exec"] = (one, command) => driver.exec(one, { ...command, fence });
  for (let code = 0; code === 0; process.stdout.write(`${code}\n`))
    ({ code } = await runToEnd(
      { exec: (command) => exec(id, command) },
      { argv: ["/bin/sh", "-c", script] },
    ));
}

if (process.argv[1] === import.meta.filename) await serve(JSON.parse(process.argv[2]!));
