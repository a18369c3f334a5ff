import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { findBusybox } from "../common/busybox.ts";
import type { Cluster } from "./cluster.ts";
import { storeProgram } from "./helper-program.ts";

/** Maximum size of the part of busybox in one ConfigMap, bytes. */
const partBytes = 1_000_000;

/** Folder of a pod in which the first process joins the parts of programs. */
export const programsPath = "/run/sandpiper-programs";

/** argv prefix of the shell that every sandbox has where the server has a static busybox. */
export const clusterShell = [`${programsPath}/busybox`, "sh"];

/**
 * Stores the server's static busybox in the cluster, and returns the names of the ConfigMaps with
 * its parts. Returns no names when the server has no static busybox. Idempotent.
 */
export async function storeBusybox(cluster: Cluster): Promise<string[]> {
  const path = findBusybox();
  if (path === undefined) return [];
  const content = readFileSync(path);
  const digest = createHash("sha256").update(content).digest("hex").slice(0, 16);
  const names: string[] = [];
  for (let begin = 0; begin < content.length; begin += partBytes) {
    const part = names.length;
    const configMap = `sandpiper-busybox-${process.arch}-${digest}-${part}`;
    const piece = content.subarray(begin, begin + partBytes);
    await storeProgram(cluster, { configMap, name: `busybox.${part}`, content: piece });
    names.push(configMap);
  }
  return names;
}
