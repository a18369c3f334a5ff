import { existsSync } from "node:fs";
import { join } from "node:path";
import type { NetworkPolicy, SandboxSpec } from "../driver.ts";
import { defaultAllowlist } from "./default-allowlist.ts";
import { clampLimits, machineLimits } from "./machine-limits.ts";
import { readSpec } from "./read-spec.ts";
import { hostSpec } from "./specs.ts";
import { invalid, readSpecsFile } from "./specs-file.ts";

export interface SpecsOptions {
  /** Absolute path of the data folder. */
  dataDir: string;
  /** Absolute path of the specs file; undefined: `specs.json` of the data folder where it exists. */
  specsFile: string | undefined;
  /** Limits of specs that set none of their own. */
  limits: { memoryBytes: number; pids: number; cpus: number; diskBytes: number };
}

/**
 * The specs of this server, the default first: those of the specs file, and `host` where the file does not define it.
 * The data folder must exist; `env` is the server's environment. Throws PlatformError ConfigInvalid with one sentence.
 */
export function loadSpecs(
  { dataDir, specsFile, limits }: SpecsOptions,
  env: Readonly<Record<string, string | undefined>>,
): SandboxSpec[] {
  const machine = machineLimits(dataDir);
  const defaults = { limits: clampLimits(limits, machine), machine, allow: defaultAllowlist(env), env };
  const network: NetworkPolicy = { mode: "allowlist", allow: defaults.allow, credentials: [] };
  const host = hostSpec(defaults.limits, network);

  const file = specsFile ?? join(dataDir, "specs.json");
  if (specsFile === undefined && !existsSync(file)) return [host];
  const specs = readSpecsFile(file).map((written, index) =>
    readSpec(written, defaults, (path, problem) => {
      return invalid(file, `specs[${index}]${path && `.${path}`}`, problem);
    }),
  );
  const twice = specs.findIndex(({ id }, index) => specs.findIndex((other) => other.id === id) < index);
  if (twice !== -1) throw invalid(file, `specs[${twice}].id`, `is there twice: ${specs[twice]!.id}`);
  return specs.some(({ id }) => id === host.id) ? specs : [...specs, host];
}
