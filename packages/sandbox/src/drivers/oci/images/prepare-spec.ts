import { readdirSync, realpathSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { PreparedSpec, PrepareOptions, SandboxSpec, SandboxUser } from "../../../driver.ts";
import { parseHostUser } from "../../../specs/specs.ts";
import { findUser } from "../../common/images/find-user.ts";
import type { ImageStore } from "./image-store.ts";

/**
 * Completes a spec by its root: fetches an image and pins it by its digest, puts the image's
 * environment under the spec's, and looks up the user. A folder with `dataDir` is refused.
 * Throws SandboxSpecUnusable or StorageFull.
 */
export async function prepareSpec(
  spec: SandboxSpec,
  { images, dataDir }: { images: ImageStore; dataDir: string },
  options: PrepareOptions = {},
): Promise<PreparedSpec> {
  const { root } = spec;
  if (root.kind === "host")
    return { ...spec, user: isUser(spec.user) ? spec.user : parseHostUser(spec.user) };
  if (root.kind === "folder") {
    const path = checkFolder(root.path, dataDir);
    return { ...spec, root: { kind: "folder", path }, user: getUser(spec, path, "", `the folder ${path}`) };
  }
  const image = await images.prepare(root.reference, options);
  const place = `the image ${image.reference.replace(/@.*/, "")}`;
  return {
    ...spec,
    root: { kind: "image", reference: image.reference },
    env: { ...image.env, ...spec.env },
    user: getUser(spec, images.layerPath(image.reference), image.user, place),
  };
}

function getUser({ user }: SandboxSpec, root: string, fallback: string, place: string): SandboxUser {
  return isUser(user) ? user : findUser(root, user ?? fallback, place);
}

function isUser(user: SandboxSpec["user"]): user is SandboxUser {
  return typeof user === "object" && user !== null;
}

const rootNames = ["bin", "sbin", "usr", "etc", "lib", "dev", "proc"];

/** Returns the real path of a folder that may be a sandbox's root. */
function checkFolder(path: string, dataDir: string): string {
  if (!isAbsolute(path)) throw new PlatformError("RootFolderRelative", { path });
  let real: string;
  let names: string[];
  try {
    real = realpathSync(path);
    if (!statSync(real).isDirectory()) throw new PlatformError("RootFolderIsFile", { path });
    names = readdirSync(real);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") throw new PlatformError("RootFolderMissing", { path });
    if (code === "EACCES") throw new PlatformError("RootFolderUnreadable", { path });
    throw error;
  }
  if (`${realpathSync(dataDir)}/`.startsWith(real === "/" ? "/" : `${real}/`))
    throw new PlatformError("RootFolderHasServerData", { path });
  if (!names.some((name) => rootNames.includes(name)))
    throw new PlatformError("RootFolderUnlikely", { path, expected: rootNames.join(", ") });
  return real;
}
