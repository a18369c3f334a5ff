import { PlatformError } from "@sandpiper/core/errors";
import type { ExecRequest } from "../../driver.ts";

/** Ids of sandboxes and snapshots. */
export const idPattern = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** Throws InvalidParameter for a command without words or with a NUL, which no path can hold. */
export function checkCommand({ argv, cwd = "", env = {} }: ExecRequest): void {
  if ([...argv, cwd, ...Object.entries(env).flat()].some((text) => text.includes("\0")))
    throw new PlatformError("CommandHasNul");
  if (argv.length === 0) throw new PlatformError("CommandEmpty");
}
