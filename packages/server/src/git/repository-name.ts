import { PlatformError } from "@sandpiper/core/errors";

const segment = /^[\p{L}\p{N}_.~-]{1,255}$/u;

/** The parts of `owner/name`, or of GitLab's `group/subgroup/name`. Throws PlatformError BadRequest. */
export function parseRepositoryName(name: string): string[] {
  const parts = name.split("/");
  const fits =
    parts.length >= 2 &&
    parts.length <= 21 &&
    parts.every((part) => segment.test(part) && !/^\.{1,2}$/.test(part));
  if (!fits) throw new PlatformError("RepositoryPathInvalid");
  return parts;
}

/** `owner/name` as a part of a path. Throws PlatformError BadRequest for other names, longer ones too. */
export function toRepositoryPath(name: string): string {
  const parts = parseRepositoryName(name);
  if (parts.length !== 2) throw new PlatformError("RepositoryPathInvalid");
  return parts.map(encodeURIComponent).join("/");
}

/** A path of a file as a part of a path. */
export function toFilePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** The `owner/name` in a repository's address at a host (`https://github.com/owner/name.git`), else undefined. */
export function parseRepositoryUrl(text: string, host: string): string | undefined {
  const url = /^https?:\/\//i.test(text) ? URL.parse(text) : null;
  if (url?.host !== host) return undefined;
  const name = url.pathname.replace(/^\/|(\.git)?\/?$/g, "").replace(/\/-\/.*$/, "");
  return name.split("/").every((part) => segment.test(part)) && name.includes("/") ? name : undefined;
}
