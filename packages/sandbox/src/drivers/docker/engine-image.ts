import { PlatformError } from "@sandpiper/core/errors";
import { parseImageReference, type RegistryImage } from "../../specs/image-reference.ts";

/** An image of a spec: of a registry, or of the engine only (`sha256:…`, its id). */
export type EngineImage = RegistryImage | { source: "engine"; id: string };

/** Throws SandboxSpecUnusable when the text is not a reference to a registry or an engine id. */
export function parseEngineImage(text: string): EngineImage {
  if (/^sha256:[0-9a-f]{64}$/.test(text)) return { source: "engine", id: text };
  const image = parseImageReference(text);
  if (image.source === "registry") return image;
  throw new PlatformError("EngineImageSource", { image: image.name });
}

/** The engine's name of an image: by digest if known. */
export function toEngineName(image: EngineImage): string {
  if (image.source === "engine") return image.id;
  return image.digest === undefined ? image.name : `${image.registry}/${image.repository}@${image.digest}`;
}

/** Pins an image by the matching one of its `digests` (`debian@sha256:…`), else by its id. */
export function pinReference(image: EngineImage, id: string, digests: string[]): string {
  if (image.source === "engine") return id;
  for (const text of digests) {
    const other = parseEngineImage(text);
    if (other.source === "engine" || other.registry !== image.registry) continue;
    if (other.repository === image.repository) return `${image.name}@${image.digest ?? other.digest}`;
  }
  return id;
}
