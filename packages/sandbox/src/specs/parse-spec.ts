import { isIP } from "node:net";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { parseSize } from "@sandpiper/core/size";
import type { AllowRule, NetworkPolicy, SandboxLimits, SandboxRoot, SandboxSpec } from "../driver.ts";
import { isHostPattern, parseAllowRule } from "./allow-rule.ts";
import { parseImageReference } from "./image-reference.ts";
import { defaultWorkingDir, parseHostUser } from "./specs.ts";
import type { WrittenNetwork, WrittenSpec } from "./specs-file.ts";

export interface SpecDefaults {
  limits: SandboxLimits;
  /** Resources of the machine. */
  machine: SandboxLimits;
  allow: AllowRule[];
  /** Variables of every spec, which its own ones override. */
  variables: Record<string, string>;
  /** Environment of the server, with the secrets of credentials. */
  env: Readonly<Record<string, string | undefined>>;
}

/** Creates the error of a field below the spec, such as `limits.memory`. */
type Invalid = (path: string, problem: string) => PlatformError;

/** Inserts the default allowlist into a longer one. */
const defaultsWord = "defaults";

/** Applies the defaults. Throws errors of `invalid`. */
export function parseSpec(written: WrittenSpec, defaults: SpecDefaults, invalid: Invalid): SandboxSpec {
  const root = parseRoot(written, invalid);
  return {
    id: written.id,
    root,
    command: written.command ?? null,
    env: { ...defaults.variables, ...written.initial_env },
    workingDir: written.working_dir ?? defaultWorkingDir,
    user: parseUser(written.user, root, invalid),
    ...(written.capabilities ? { capabilities: written.capabilities } : {}),
    limits: parseLimits(written.limits ?? {}, defaults, invalid),
    network: parseNetwork(written.network ?? {}, defaults, invalid),
  };
}

function parseRoot({ image, folder }: WrittenSpec, invalid: Invalid): SandboxRoot {
  if (image !== undefined && folder !== undefined) throw invalid("", "has both an image and a folder");
  if (folder !== undefined) return { kind: "folder", path: folder };
  if (image === undefined) return { kind: "host" };
  withPath("image", invalid, () => parseImageReference(image));
  return { kind: "image", reference: image };
}

function parseUser(user: WrittenSpec["user"], root: SandboxRoot, invalid: Invalid): SandboxSpec["user"] {
  const text = user === undefined ? null : String(user);
  return root.kind === "host" ? withPath("user", invalid, () => parseHostUser(text)) : text;
}

function parseLimits(
  written: NonNullable<WrittenSpec["limits"]>,
  { limits, machine }: SpecDefaults,
  invalid: Invalid,
): SandboxLimits {
  const size = (name: "memory" | "disk", least: number, fallback: number): number => {
    const value = written[name];
    const bytes = value === undefined ? fallback : typeof value === "number" ? value : parseSize(value);
    if (bytes !== undefined && bytes >= least) return bytes;
    throw invalid(
      `limits.${name}`,
      `must be a size such as "512M" or "2G", and not below ${least / 2 ** 20}M`,
    );
  };
  const result: SandboxLimits = {
    memoryBytes: size("memory", 32 * 2 ** 20, limits.memoryBytes),
    pids: written.pids ?? limits.pids,
    cpus: written.cpus ?? limits.cpus,
    diskBytes: size("disk", 2 ** 20, limits.diskBytes),
  };
  const over = (path: string, value: number, most: number, shown = String(most)) => {
    if (value > most) throw invalid(`limits.${path}`, `is more than this machine has (${shown})`);
  };
  over("memory", result.memoryBytes, machine.memoryBytes, formatMegabytes(machine.memoryBytes));
  over("pids", result.pids, machine.pids);
  over("cpus", result.cpus, machine.cpus);
  over("disk", result.diskBytes, machine.diskBytes, formatMegabytes(machine.diskBytes));
  return result;
}

function parseNetwork(written: WrittenNetwork, defaults: SpecDefaults, invalid: Invalid): NetworkPolicy {
  const { mode = "allowlist", allow } = written;
  if (allow && mode !== "allowlist") throw invalid("network.allow", `has no meaning with the mode ${mode}`);
  const rules = (allow ?? [defaultsWord]).flatMap((rule, index) => {
    if (rule === defaultsWord) return defaults.allow;
    const read = parseAllowRule(rule);
    if (read) return [read];
    throw invalid(
      `network.allow[${index}]`,
      `must be a host such as "github.com" or "*.example.com:443", or "${defaultsWord}"`,
    );
  });
  const credentials = (written.credentials ?? []).map(
    ({ name, hosts, from_env: fromEnv, headers }, index) => {
      const path = `network.credentials[${index}]`;
      const wrong = hosts.findIndex((host) => !isHostPattern(host));
      if (wrong !== -1)
        throw invalid(`${path}.hosts[${wrong}]`, `must be a host such as "github.com", without a port`);
      if (!defaults.env[fromEnv])
        throw invalid(`${path}.from_env`, `names ${fromEnv}, which the server's environment does not have`);
      return {
        name,
        hosts: hosts.map((host) => host.toLowerCase()),
        fromEnv,
        ...(headers && { headers: headers.map((header) => header.toLowerCase()) }),
      };
    },
  );
  const ranges = written.private ?? [];
  const wrong = ranges.findIndex((range) => !isRange(range));
  if (wrong !== -1)
    throw invalid(`network.private[${wrong}]`, `must be an address range such as "10.1.0.0/16"`);
  return {
    mode,
    allow: mode === "allowlist" ? rules : [],
    credentials,
    ...(ranges.length > 0 ? { private: ranges } : {}),
  };
}

function isRange(text: string): boolean {
  const [, address = "", bits] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  return isIP(address) !== 0 && Number(bits) <= (isIP(address) === 4 ? 32 : 128);
}

function withPath<T>(path: string, invalid: Invalid, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof PlatformError) throw invalid(path, `is not valid: ${errorText(error)}`);
    throw error;
  }
}

function formatMegabytes(bytes: number): string {
  return `${Math.floor(bytes / 2 ** 20)}M`;
}
