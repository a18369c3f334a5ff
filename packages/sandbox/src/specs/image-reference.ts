import { PlatformError } from "@sandpiper/core/errors";

/** A reference to an image with all defaults filled in. */
export type ImageReference = RegistryImage | LocalImage;

export interface RegistryImage {
  source: "registry";
  /** `docker.io`, `localhost:5000`. */
  registry: string;
  /** For example `library/debian`. */
  repository: string;
  tag: string;
  /** `sha256:…`; takes precedence over the tag. */
  digest: string | undefined;
  /** Full name without digest: `docker.io/library/debian:12`. */
  name: string;
}

/** An image in a local OCI layout (folder) or a file of `docker save`. */
export interface LocalImage {
  source: "oci" | "docker-archive";
  path: string;
  /** After the path and a colon: selects one of several images. */
  tag: string | undefined;
  digest: string | undefined;
  name: string;
}

const digestPattern = /^sha256:[0-9a-f]{64}$/;
const registryPattern =
  /^(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(?::\d{1,5})?$/;
const repositoryPattern =
  /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$/;
const tagPattern = /^\w[\w.-]{0,127}$/;

/**
 * Parses a reference like docker (`debian` is `docker.io/library/debian:latest`), or a local image
 * (`oci:/path[:tag]`, `docker-archive:/path[:name]`). Throws SandboxSpecUnusable.
 */
export function parseImageReference(text: string): ImageReference {
  const at = text.lastIndexOf("@");
  const digest = at === -1 ? undefined : text.slice(at + 1);
  const rest = (at === -1 ? text : text.slice(0, at)).replace(/^docker:\/\//, "");
  if (text.length > 512 || (digest !== undefined && !digestPattern.test(digest)))
    throw new PlatformError("InvalidImageReference", { reference: text });
  const local = /^(oci|docker-archive):(.*)$/s.exec(rest);
  const image = local
    ? parseLocalImage(local[1] as LocalImage["source"], local[2]!, digest)
    : parseRegistryImage(rest, digest);
  if (!image) throw new PlatformError("InvalidImageReference", { reference: text });
  return image;
}

/** A reference to exactly this content, independent of the tag. */
export function pinImage(image: ImageReference, digest: string): string {
  return `${image.name}@${digest}`;
}

/** The digest of a pinned reference, or undefined. */
export function getDigest(reference: string): string | undefined {
  const digest = reference.slice(reference.lastIndexOf("@") + 1);
  return digestPattern.test(digest) ? digest : undefined;
}

function parseRegistryImage(text: string, digest: string | undefined): RegistryImage | undefined {
  const slash = text.indexOf("/");
  const first = slash === -1 ? "" : text.slice(0, slash);
  const named = /[.:A-Z]/.test(first) || first === "localhost";
  const registry = named ? first : "docker.io";
  const [, path = "", tag = "latest"] =
    /^([^:]*)(?::(.*))?$/s.exec(named ? text.slice(slash + 1) : text) ?? [];
  if (!registryPattern.test(registry) || !repositoryPattern.test(path) || !tagPattern.test(tag))
    return undefined;
  const repository = registry === "docker.io" && !path.includes("/") ? `library/${path}` : path;
  return { source: "registry", registry, repository, tag, digest, name: `${registry}/${repository}:${tag}` };
}

function parseLocalImage(
  source: LocalImage["source"],
  text: string,
  digest: string | undefined,
): LocalImage | undefined {
  const [, path = "", tag] = /^(\/[^:\0-\x1f]*)(?::([\w./:-]{1,256}))?$/.exec(text) ?? [];
  if (path === "" || path.split("/").includes("..")) return undefined;
  return { source, path, tag, digest, name: `${source}:${path}${tag === undefined ? "" : `:${tag}`}` };
}
