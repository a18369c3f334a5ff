import { readdirSync, realpathSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import type { PreparedSpec, PrepareOptions, SandboxSpec, SandboxUser } from "../../../driver.ts";
import { parseHostUser } from "../../../specs/specs.ts";
import { unusable } from "../../common/images/problems.ts";
import { findUser } from "../../common/images/users.ts";
import type { ImageStore } from "./image-store.ts";

/**
 * A spec with all that its root decides: an image is brought here and pinned by its digest, the environment that it names lies under the
 * spec's, and the user is looked up in its files. `dataDir` must not be shown to a sandbox.
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
    return { ...spec, root: { kind: "folder", path }, user: userOf(spec, path, "", `the folder ${path}`) };
  }
  const image = await images.prepare(root.reference, options);
  const what = `the image ${image.reference.replace(/@.*/, "")}`;
  return {
    ...spec,
    root: { kind: "image", reference: image.reference },
    env: { ...image.env, ...spec.env },
    user: userOf(spec, images.layerOf(image.reference), image.user, what),
  };
}

function userOf({ user }: SandboxSpec, root: string, otherwise: string, what: string): SandboxUser {
  return isUser(user) ? user : findUser(root, user ?? otherwise, what);
}

function isUser(user: SandboxSpec["user"]): user is SandboxUser {
  return typeof user === "object" && user !== null;
}

const usualNames = ["bin", "sbin", "usr", "etc", "lib", "dev", "proc"];

/** The real path of a folder that may be a sandbox's root. */
function checkFolder(path: string, dataDir: string): string {
  if (!isAbsolute(path)) throw unusable(`The folder ${path} is no absolute path.`);
  let real: string;
  let names: string[];
  try {
    real = realpathSync(path);
    if (!statSync(real).isDirectory()) throw unusable(`${path} is not a folder.`);
    names = readdirSync(real);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") throw unusable(`The folder ${path} does not exist.`);
    if (code === "EACCES") throw unusable(`The folder ${path} cannot be read by the server.`);
    throw error;
  }
  if (`${realpathSync(dataDir)}/`.startsWith(real === "/" ? "/" : `${real}/`))
    throw unusable(
      `The folder ${path} holds the server's own data: choose one with a root filesystem and nothing else.`,
    );
  if (!names.some((name) => usualNames.includes(name)))
    throw unusable(
      `The folder ${path} does not look like a root filesystem: it has none of ${usualNames.join(", ")}.`,
    );
  return real;
}
