import { createHash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { profilePackage, profilePath, seccompSection } from "../../common/seccomp.ts";
import type { Runtime } from "../container/runtime.ts";

/** A filter as a runtime configuration carries it. */
export type SeccompFilter = { section: object } | { compiled: string };

/** What a sandbox that was started for a try showed. */
export interface Trial {
  /** The compiled filter that the runtime keeps, base64; undefined when it keeps none. */
  compiled: string | undefined;
  /** Whether its first process is filtered. */
  filtered: boolean;
}

/**
 * The system call filter of every sandbox. crun spends more time on compiling it than on everything else of a start, so it is compiled once
 * by a trial start, checked by a second one, and kept in `folder` under a name that tells what it was made from.
 * Throws SandboxFailed when the shared profile is missing or the filter does not come into force.
 */
export async function seccompFilter(input: {
  runtime: Runtime;
  folder: string;
  start: (filter: SeccompFilter) => Promise<Trial>;
}): Promise<SeccompFilter> {
  const { runtime, folder, start } = input;
  const section = readSection();
  if (runtime.kind !== "crun") return { section };

  const name = createHash("sha256")
    .update(JSON.stringify([section, runtime.version, process.arch]))
    .digest("hex")
    .slice(0, 24);
  const path = join(folder, `seccomp-${name}.bpf`);
  try {
    return { compiled: readFileSync(path, "latin1") };
  } catch {
    // Not compiled yet.
  }
  const first = await start({ section });
  if (!first.filtered)
    throw new PlatformError(
      "SandboxFailed",
      "The kernel did not take the system call filter; it needs CONFIG_SECCOMP_FILTER.",
    );
  if (first.compiled === undefined || !(await start({ compiled: first.compiled })).filtered)
    return { section };
  writeFileSync(`${path}.new`, first.compiled, { mode: 0o600 });
  renameSync(`${path}.new`, path);
  return { compiled: first.compiled };
}

function readSection(): object {
  let text: string;
  try {
    text = readFileSync(profilePath, "utf8");
  } catch (cause) {
    const advice = `install it with \`apt-get install ${profilePackage}\``;
    throw new PlatformError("SandboxFailed", `The system call filter ${profilePath} is missing; ${advice}.`, {
      cause,
    });
  }
  const section = seccompSection(JSON.parse(text), process.arch);
  if (!section)
    throw new PlatformError(
      "SandboxFailed",
      `There is no system call filter for the architecture ${process.arch}.`,
    );
  return section;
}
