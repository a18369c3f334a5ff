import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";

/** What an engine sends to a registry. Never shown. */
export interface Credentials {
  serveraddress: string;
  username?: string;
  password?: string;
  identitytoken?: string;
}

/** Docker Hub's name in such files. */
const hub = "https://index.docker.io/v1/";

/**
 * The credentials for a registry from a file in the format of Docker's config.json; undefined when it holds none. Without a file of one's own
 * the places are read where `skopeo login` and `docker login` write. Throws SandboxSpecUnusable when the file cannot be read.
 */
export function credentialsFor(registry: string, file?: string): Credentials | undefined {
  const files = file ? [file] : usualFiles();
  for (const path of files) {
    const auths = readAuths(path, file !== undefined);
    const names =
      registry === "docker.io"
        ? [hub, "docker.io", "index.docker.io"]
        : [registry, `https://${registry}`, `http://${registry}`];
    const entry = names.map((name) => auths[name]).find((one) => one !== undefined);
    if (!entry) continue;
    const serveraddress = registry === "docker.io" ? hub : registry;
    if (typeof entry.identitytoken === "string") return { serveraddress, identitytoken: entry.identitytoken };
    const pair = Buffer.from(String(entry.auth ?? ""), "base64").toString("utf8");
    const colon = pair.indexOf(":");
    if (colon > 0) return { serveraddress, username: pair.slice(0, colon), password: pair.slice(colon + 1) };
  }
  return undefined;
}

function usualFiles(): string[] {
  const { XDG_RUNTIME_DIR, DOCKER_CONFIG } = process.env;
  return [
    ...(XDG_RUNTIME_DIR ? [join(XDG_RUNTIME_DIR, "containers/auth.json")] : []),
    join(homedir(), ".config/containers/auth.json"),
    join(DOCKER_CONFIG ?? join(homedir(), ".docker"), "config.json"),
  ];
}

function readAuths(
  path: string,
  wanted: boolean,
): Record<string, { auth?: unknown; identitytoken?: unknown } | undefined> {
  try {
    const parsed: unknown = JSON.parse(readFileSync(path, "utf8"));
    const auths = (parsed as { auths?: unknown } | null)?.auths;
    return typeof auths === "object" && auths !== null ? { ...auths } : {};
  } catch (error) {
    if (!wanted && (error as NodeJS.ErrnoException).code === "ENOENT") return {};
    // The parser's message would quote the file.
    const reason = (error as NodeJS.ErrnoException).code ?? "it is not JSON";
    throw new PlatformError(
      "SandboxSpecUnusable",
      `The file with registry credentials ${path} cannot be read: ${reason}.`,
    );
  }
}
