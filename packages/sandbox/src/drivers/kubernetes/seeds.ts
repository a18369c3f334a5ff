import { PlatformError } from "@sandpiper/core/errors";
import { runToEnd } from "../../shell/run.ts";
import { helperPath } from "./helper-program.ts";
import type { Resident } from "./resident.ts";

/** Waits until the folders of a new pod have the image's files. Throws SandboxFailed. */
export async function awaitSeeds(resident: Resident, folders: string[]): Promise<void> {
  const argv = [helperPath, "await-seeds", ...folders];
  const exec = async () => resident.run({ argv, cwd: "/", env: {} });
  const { code, stderr } = await runToEnd({ exec }, { argv }, {});
  if (code !== 0) throw new PlatformError("PodFilesFailed", { reason: stderr.toString().trim() });
}
