import { existsSync, readFileSync } from "node:fs";
import { profilePath, type SeccompProfile, seccompSection } from "../common/seccomp.ts";

/**
 * The oci driver's system call filter in the form that an engine takes, made from the profile of this machine's distribution. Undefined
 * where there is none for this architecture: then the engine's own profile holds, which may let a hypervisor's sockets (AF_VSOCK) through
 * that no network namespace keeps back.
 */
export function seccompOption(path = profilePath): string | undefined {
  if (!existsSync(path)) return undefined;
  const section = seccompSection(JSON.parse(readFileSync(path, "utf8")) as SeccompProfile, process.arch);
  return (
    section &&
    JSON.stringify({
      ...section,
      syscalls: (section as Section).syscalls.filter((rule) => !isOpenRange(rule)),
    })
  );
}

interface Section {
  syscalls: { args?: { op: string }[] }[];
}

/** Docker 20 fails on a range beside single values. What the range refuses with an error number of its own, the default action refuses, too. */
function isOpenRange(rule: Section["syscalls"][number]): boolean {
  return rule.args?.some(({ op }) => op === "SCMP_CMP_GT") ?? false;
}
