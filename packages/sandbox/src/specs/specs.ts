import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { NetworkPolicy, PreparedSpec, SandboxLimits, SandboxSpec, SandboxUser } from "../driver.ts";
import { parseImageReference } from "./image-reference.ts";
import type { Registries } from "./registries.ts";

/** The image does not decide it: a conversation begins before its image is available. */
export const defaultWorkingDir = "/workspace/project";

const noNetwork: NetworkPolicy = { mode: "none", allow: [], credentials: [] };

/** The built-in default spec: the machine's own tools without an image. */
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

/** A name, `uid` or `uid:gid`; null: the default. Throws SandboxSpecUnusable. */
export function parseHostUser(text: string | null): SandboxUser {
  const [, uid, gid] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text ?? "1000") ?? [];
  if (text === "root" || uid === "0") return { name: "root", uid: 0, gid: Number(gid ?? 0), home: "/root" };
  if (uid === undefined && /^[a-z_][a-z0-9_-]{0,31}$/.test(text!))
    return { name: text!, uid: 1000, gid: 1000, home: `/home/${text}` };
  if (Number(uid) < 65_535 && Number(gid ?? 0) < 65_535)
    return { name: "agent", uid: Number(uid), gid: Number(gid ?? uid), home: "/home/agent" };
  throw new PlatformError("InvalidSpecUser", { user: text!.slice(0, 64) });
}

/**
 * The spec for a user's setting `sandbox_base_container_image`, otherwise like `defaults`. Users
 * may not use local images. Throws SandboxSpecUnusable with the name of the setting.
 */
export function createImageSpec(
  reference: string,
  defaults: SandboxSpec,
  registries: Pick<Registries, "checkUser">,
): SandboxSpec {
  try {
    const image = parseImageReference(reference);
    if (image.source !== "registry")
      throw new Error(`${JSON.stringify(image.name)} is not an image in a registry.`);
    registries.checkUser(image.registry);
  } catch (error) {
    throw new PlatformError("ImageSettingUnusable", { reason: errorText(error) });
  }
  return { ...defaults, id: reference, root: { kind: "image", reference }, command: null, user: null };
}
