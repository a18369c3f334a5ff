import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { findJsonFault } from "@sandpiper/core/json-fault";

/** Credentials that an engine sends to a registry. Never logged. */
export interface RegistryCredentials {
  serveraddress: string;
  username?: string;
  password?: string;
  identitytoken?: string;
}

/** Docker Hub's name in config.json. */
const hubAddress = "https://index.docker.io/v1/";

/**
 * Finds the credentials for a registry in a file in the format of Docker's config.json, by default
 * in those of `skopeo login` and `docker login`. Undefined when there are none. Throws
 * SandboxSpecUnusable when the file cannot be read.
 */
export function findCredentials(registry: string, file?: string): RegistryCredentials | undefined {
  const files = file ? [file] : defaultFiles();
  for (const path of files) {
    const auths = readAuths(path, file !== undefined);
    const names =
      registry === "docker.io"
        ? [hubAddress, "docker.io", "index.docker.io"]
        : [registry, `https://${registry}`, `http://${registry}`];
    const entry = names.map((name) => auths[name]).find((one) => one !== undefined);
    if (!entry) continue;
    const serveraddress = registry === "docker.io" ? hubAddress : registry;
    if (typeof entry.identitytoken === "string") return { serveraddress, identitytoken: entry.identitytoken };
    const pair = Buffer.from(String(entry.auth ?? ""), "base64").toString("utf8");
    const colon = pair.indexOf(":");
    if (colon > 0) return { serveraddress, username: pair.slice(0, colon), password: pair.slice(colon + 1) };
  }
  return undefined;
}

function defaultFiles(): string[] {
  const { XDG_RUNTIME_DIR, DOCKER_CONFIG } = process.env;
  return [
    ...(XDG_RUNTIME_DIR ? [join(XDG_RUNTIME_DIR, "containers/auth.json")] : []),
    join(homedir(), ".config/containers/auth.json"),
    join(DOCKER_CONFIG ?? join(homedir(), ".docker"), "config.json"),
  ];
}

function readAuths(
  path: string,
  required: boolean,
): Record<string, { auth?: unknown; identitytoken?: unknown } | undefined> {
  let text = "";
  try {
    text = readFileSync(path, "utf8");
    const parsed: unknown = JSON.parse(text);
    const auths = (parsed as { auths?: unknown } | null)?.auths;
    return typeof auths === "object" && auths !== null ? { ...auths } : {};
  } catch (error) {
    if (!required && (error as NodeJS.ErrnoException).code === "ENOENT") return {};
    // The parser's message may quote secrets of the file.
    const reason = (error as NodeJS.ErrnoException).code ?? `it is not JSON (${findJsonFault(text)})`;
    throw new PlatformError("RegistryAuthUnreadable", { path, reason });
  }
}
