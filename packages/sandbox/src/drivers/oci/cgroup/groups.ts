import { rootless } from "../storage/uid-range.ts";
import { ControlGroups } from "./control-groups.ts";
import { NamespaceGroups } from "./namespace-groups.ts";
import type { ProcessGroups } from "./process-group.ts";

/** The process groups of the installation in `dir`, which exists. Throws SandboxFailed. */
export function processGroups(dir: string): ProcessGroups {
  return rootless() ? new NamespaceGroups(dir) : new ControlGroups(dir);
}
