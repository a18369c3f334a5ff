import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PlatformError } from "@sandpiper/core/errors";
import { insideFolder } from "../common/busybox.ts";
import { runProgram } from "../common/run-program.ts";
import type { Cluster } from "./cluster.ts";

const sources = fileURLToPath(new URL("./helper/", import.meta.url));
/** Folder into which a packager compiles the helper, so that a server needs no compiler. */
const compiled = join(sources, "compiled");

const compilers = ["cc", "gcc", "clang"];
const compileFlags = ["-std=gnu11", "-Os", "-static", "-s", "-ffunction-sections", "-Wl,--gc-sections"];
const compileTimeoutMs = 120_000;
/** Maximum size of the content of a ConfigMap, bytes. */
const maxBytes = 2 ** 20;

/** The path of the helper in a pod, and the name of the helper in its ConfigMap. */
export const helperName = "helper";
export const helperPath = `${insideFolder}/${helperName}`;

export interface HelperProgram {
  content: Buffer;
  /** Name of the ConfigMap that contains the program. */
  configMap: string;
}

/**
 * Returns the static helper for this machine's architecture. Compiles it into `dir` unless it is
 * compiled already. Throws SandboxFailed when the compiler is missing or fails.
 */
export async function loadHelper(dir: string): Promise<HelperProgram> {
  const names = readdirSync(sources)
    .filter((name) => /\.[ch]$/.test(name))
    .sort();
  const digest = createHash("sha256").update(process.arch).update(compileFlags.join(" "));
  for (const name of names) digest.update(name).update(readFileSync(join(sources, name)));
  const name = `helper-${process.arch}-${digest.digest("hex").slice(0, 16)}`;
  const path = [compiled, dir].map((folder) => join(folder, name)).find((file) => existsSync(file));
  const content = readFileSync(path ?? (await compile(names, dir, name)));
  if (content.length > maxBytes) throw new PlatformError("HelperTooLarge", { bytes: content.length });
  return { content, configMap: `sandpiper-${name}` };
}

async function compile(names: string[], dir: string, name: string): Promise<string> {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const files = names.filter((one) => one.endsWith(".c")).map((one) => join(sources, one));
  const target = join(dir, name);
  let reason = "";
  for (const compiler of compilers) {
    const next = `${target}.${process.pid}`;
    const argv = [compiler, ...compileFlags, "-o", next, ...files];
    const result = await runProgram(argv, { timeoutMs: compileTimeoutMs });
    if (result.code === 0) {
      renameSync(next, target);
      return target;
    }
    rmSync(next, { force: true });
    reason = result.reason || `${compiler} ended with code ${result.code}`;
    if (result.code !== 127) break;
  }
  throw new PlatformError("HelperNotCompiled", { reason });
}

/** Stores the helper in a ConfigMap, which pods mount. Idempotent. */
export async function storeHelper(cluster: Cluster, { content, configMap }: HelperProgram): Promise<void> {
  await storeProgram(cluster, { configMap, name: helperName, content });
}

/** Stores a program, or a part of one, as an entry of a ConfigMap. Idempotent. */
export async function storeProgram(
  cluster: Cluster,
  { configMap, name, content }: HelperProgram & { name: string },
): Promise<void> {
  await cluster.request(
    "create configmaps",
    () =>
      cluster.core.createNamespacedConfigMap({
        namespace: cluster.namespace,
        body: {
          metadata: { name: configMap, labels: { "app.kubernetes.io/part-of": "sandpiper" } },
          immutable: true,
          binaryData: { [name]: content.toString("base64") },
        },
      }),
    { 409: () => undefined },
  );
}
