import { PlatformError } from "../../../errors.ts";

/** An image reference taken apart. A local one (`sha256:…`) has only an id. */
export type Reference =
  | { kind: "local"; id: string }
  /** `name` with its registry (`docker.io/library/debian`); `version` is a tag or a digest. */
  | { kind: "named"; registry: string; name: string; version: string; text: string };

const domain = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/i;
const component = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$/;
const tagPattern = /^\w[\w.-]{0,127}$/;
const digestPattern = /^sha256:[0-9a-f]{64}$/;

/** Throws SandboxSpecUnusable when the text names no image of a registry or of the engine. */
export function parseReference(text: string): Reference {
  if (digestPattern.test(text)) return { kind: "local", id: text };
  if (/^(oci|oci-archive|docker-archive|dir|containers-storage):/.test(text) && text.includes("/")) {
    throw unusable(
      `The docker driver takes images from registries and from its engine, not from "${text}"; load it into the engine instead.`,
    );
  }
  const [named = "", digest, ...more] = text.replace(/^docker:\/\//, "").split("@");
  const slash = named.indexOf("/");
  const first = slash < 0 ? "" : named.slice(0, slash);
  const hasRegistry = first === "localhost" || /[.:]/.test(first);
  const registry = hasRegistry ? first : "docker.io";
  const [path = "", tag, ...rest] = (hasRegistry ? named.slice(slash + 1) : named).split(":");
  const parts = registry === "docker.io" && !path.includes("/") ? ["library", path] : path.split("/");
  const right =
    more.length === 0 &&
    rest.length === 0 &&
    domain.test(registry) &&
    parts.every((part) => component.test(part)) &&
    (tag === undefined || tagPattern.test(tag)) &&
    (digest === undefined || digestPattern.test(digest)) &&
    text.length < 1_024;
  if (!right) throw unusable(`"${text}" is not an image reference such as docker.io/library/debian:12.`);
  return { kind: "named", registry, name: `${registry}/${parts.join("/")}`, version: digest ?? tag ?? "latest", text };
}

/** How the engine is asked for it. */
export function engineName(reference: Reference): string {
  if (reference.kind === "local") return reference.id;
  return `${reference.name}${reference.version.startsWith("sha256:") ? "@" : ":"}${reference.version}`;
}

/** The part of `digests` (`debian@sha256:…`) that names the same repository, in full; undefined for an image that no registry gave. */
export function pinned(reference: Reference, digests: string[]): string | undefined {
  if (reference.kind === "local") return undefined;
  for (const text of digests) {
    const other = parseReference(text);
    if (other.kind === "named" && other.name === reference.name) return engineName(other);
  }
  return undefined;
}

function unusable(message: string): PlatformError {
  return new PlatformError("SandboxSpecUnusable", message);
}
