import { existsSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { NetworkPolicy, SandboxSpec } from "../driver.ts";
import { buildDefaultAllowlist } from "./default-allowlist.ts";
import { clampLimits, getMachineLimits } from "./machine-limits.ts";
import type { MirrorConfig } from "./package-sources/mirrors.ts";
import { parseSpec } from "./parse-spec.ts";
import { createHostSpec } from "./specs.ts";
import { readSpecsFile, toSpecError } from "./specs-file.ts";

export interface LoadSpecsOptions {
  /** Absolute path of the data folder. */
  dataDir: string;
  /** Absolute path of the specs file; undefined: `specs.json` of the data folder, if it exists. */
  specsFile: string | undefined;
  /** Name of the driver. Only the oci driver runs the host's files. */
  driver?: "oci" | "docker" | "kubernetes";
  /** Default limits. */
  limits: { memoryBytes: number; pids: number; cpus: number; diskBytes: number };
  /** Mirrors of package registries; default: none. */
  mirrors?: Pick<MirrorConfig, "rules" | "env">;
}

/**
 * The specs of this server, the default first: those of the specs file, and `host` unless the file
 * defines it. The data folder must exist; `env` is the server's environment. Throws ConfigInvalid.
 */
export function loadSpecs(
  { dataDir, specsFile, driver, limits, mirrors = { rules: [], env: {} } }: LoadSpecsOptions,
  env: Readonly<Record<string, string | undefined>>,
): SandboxSpec[] {
  const machine = getMachineLimits(dataDir);
  const defaults = {
    ...{ limits: clampLimits(limits, machine), machine, env },
    ...{ allow: buildDefaultAllowlist(env, mirrors.rules), variables: mirrors.env },
  };
  const network: NetworkPolicy = { mode: "allowlist", allow: defaults.allow, credentials: [] };
  const host = { ...createHostSpec(defaults.limits, network), env: defaults.variables };

  const file = specsFile ?? join(dataDir, "specs.json");
  const isMissing = specsFile === undefined && !existsSync(file);
  const needsImage = driver === "docker" || driver === "kubernetes";
  if (isMissing && needsImage) throw new PlatformError("ImageSpecMissing", { driver, file });
  if (isMissing) return [host];
  const specs = readSpecsFile(file).map((written, index) =>
    parseSpec(written, defaults, (path, problem) => {
      return toSpecError(file, `specs[${index}]${path && `.${path}`}`, problem);
    }),
  );
  const twice = specs.findIndex(({ id }, index) => specs.findIndex((other) => other.id === id) < index);
  if (twice !== -1) throw toSpecError(file, `specs[${twice}].id`, `is used twice: ${specs[twice]!.id}`);
  if (needsImage && specs[0]!.root.kind !== "image")
    throw toSpecError(
      file,
      "specs[0]",
      `must have an image, because SANDPIPER_DRIVER=${driver} runs images only`,
    );
  return specs.some(({ id }) => id === host.id) ? specs : [...specs, host];
}
