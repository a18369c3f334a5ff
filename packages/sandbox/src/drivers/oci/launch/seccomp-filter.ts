import { createHash } from "node:crypto";
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { makeSeccompSection, profilePackage, profilePath } from "../../common/seccomp.ts";
import type { FolderMembers } from "../../common/sharing/folder-members.ts";
import type { Runtime } from "../container/runtime.ts";

/** A filter as a runtime configuration carries it. */
export type SeccompFilter = { section: object } | { compiled: string };

/** Result of a trial start. */
export interface TrialResult {
  /** The compiled filter that the runtime keeps, base64; undefined when it keeps none. */
  compiled: string | undefined;
  /** True when the first process has a filter. */
  filtered: boolean;
}

/**
 * Prepares the system call filter of every sandbox. Compiling it is the slowest step of a crun
 * start, so a trial start compiles it once, a second one checks it, and `folder` keeps it under the
 * hash of its inputs. Throws SandboxFailed when the profile is missing or the filter has no effect.
 */
export async function prepareSeccompFilter(input: {
  runtime: Runtime;
  folder: string;
  /** The processes that share the folder. */
  members: FolderMembers;
  start: (filter: SeccompFilter) => Promise<TrialResult>;
}): Promise<SeccompFilter> {
  const { runtime, folder, members, start } = input;
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
    // It is not compiled yet.
  }
  const { filtered, compiled } = await start({ section });
  if (!filtered) throw new PlatformError("SeccompIneffective");
  if (compiled === undefined || !(await start({ compiled })).filtered) return { section };
  removeDrafts(folder, members);
  const draft = `${path}.${members.name}`;
  writeFileSync(draft, compiled, { mode: 0o600 });
  renameSync(draft, path);
  return { compiled };
}

/** Removes the drafts of processes that were killed. */
function removeDrafts(folder: string, members: FolderMembers): void {
  for (const name of readdirSync(folder)) {
    const [, maker] = /^seccomp-\w+\.bpf\.(.+)$/.exec(name) ?? [];
    if (maker !== undefined && !members.isLiving(maker)) rmSync(join(folder, name), { force: true });
  }
}

function readSection(): object {
  let text: string;
  try {
    text = readFileSync(profilePath, "utf8");
  } catch (cause) {
    throw new PlatformError("SeccompProfileMissing", { path: profilePath, name: profilePackage }, { cause });
  }
  const section = makeSeccompSection(JSON.parse(text), process.arch);
  if (!section) throw new PlatformError("SeccompArchUnknown", { arch: process.arch });
  return section;
}
