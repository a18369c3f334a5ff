import type { RegistryImage } from "../../specs/image-reference.ts";
import { parseImageReference } from "../../specs/image-reference.ts";
import { unusable } from "../common/images/problems.ts";

/** An image as a spec names it: one that a registry may have, or one that only the engine has (`sha256:…`, its own id). */
export type EngineImage = RegistryImage | { source: "engine"; id: string };

/** Throws SandboxSpecUnusable when the text names no image of a registry or of the engine. */
export function parseEngineImage(text: string): EngineImage {
  if (/^sha256:[0-9a-f]{64}$/.test(text)) return { source: "engine", id: text };
  const image = parseImageReference(text);
  if (image.source === "registry") return image;
  throw unusable(
    `The docker driver takes images from registries and from its engine, so load ${image.name} into the engine and name it there.`,
  );
}

/** How the engine is asked for it: by digest where there is one. */
export function engineName(image: EngineImage): string {
  if (image.source === "engine") return image.id;
  return image.digest === undefined ? image.name : `${image.registry}/${image.repository}@${image.digest}`;
}

/** The reference that names exactly the image with that id and those digests (`debian@sha256:…`), which registries gave to it. */
export function pinnedReference(image: EngineImage, id: string, digests: string[]): string {
  if (image.source === "engine") return id;
  for (const text of digests) {
    const other = parseEngineImage(text);
    if (
      other.source === "registry" &&
      other.registry === image.registry &&
      other.repository === image.repository
    ) {
      return `${image.name}@${image.digest ?? other.digest}`;
    }
  }
  return id;
}
