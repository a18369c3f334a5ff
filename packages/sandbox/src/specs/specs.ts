import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { NetworkPolicy, PreparedSpec, SandboxLimits, SandboxSpec, SandboxUser } from "../driver.ts";
import { parseImageReference } from "./image-reference.ts";

/** Where the work of a sandbox lies, unless its spec says otherwise. A conversation begins before its image is there, so no image decides it. */
export const defaultWorkingDir = "/workspace/project";

const noNetwork: NetworkPolicy = { mode: "none", allow: [], credentials: [] };

/** The embedded default: the machine's own tools, no image. Works on every machine with an OCI runtime. */
export function createHostSpec(limits: SandboxLimits, network: NetworkPolicy = noNetwork): PreparedSpec {
  return {
    id: "host",
    root: { kind: "host" },
    command: null,
    env: {},
    workingDir: defaultWorkingDir,
    user: parseHostUser(null),
    limits,
    network,
  };
}

/**
 * The user of a `host` sandbox, whose user database is made for it: a name, `uid`, or `uid:gid`; null is the usual one.
 * Throws PlatformError SandboxSpecUnusable.
 */
export function parseHostUser(text: string | null): SandboxUser {
  const [, uid, gid] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text ?? "1000") ?? [];
  if (text === "root" || uid === "0") return { name: "root", uid: 0, gid: Number(gid ?? 0), home: "/root" };
  if (uid === undefined && /^[a-z_][a-z0-9_-]{0,31}$/.test(text!))
    return { name: text!, uid: 1000, gid: 1000, home: `/home/${text}` };
  if (Number(uid) < 65_535 && Number(gid ?? 0) < 65_535)
    return { name: "agent", uid: Number(uid), gid: Number(gid ?? uid), home: "/home/agent" };
  throw new PlatformError(
    "SandboxSpecUnusable",
    `The user ${JSON.stringify(text!.slice(0, 64))} must be a name, uid or uid:gid.`,
  );
}

/**
 * The spec of the image that a user's setting `sandbox_base_container_image` asks for; all else is as in `defaults`. Images in files
 * of the server's machine are not for users.
 * Throws PlatformError SandboxSpecUnusable, naming the setting, for a bad reference.
 */
export function createImageSpec(reference: string, defaults: SandboxSpec): SandboxSpec {
  try {
    const { source, name } = parseImageReference(reference);
    if (source !== "registry") throw new Error(`${JSON.stringify(name)} is not an image in a registry.`);
  } catch (error) {
    throw new PlatformError(
      "SandboxSpecUnusable",
      `The setting sandbox_base_container_image cannot be used: ${errorText(error)}`,
    );
  }
  return { ...defaults, id: reference, root: { kind: "image", reference }, command: null, user: null };
}
