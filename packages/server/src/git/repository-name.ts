import { PlatformError } from "@sandpiper/core/errors";

const segment = /^[\p{L}\p{N}_.~-]{1,255}$/u;

/** Splits `owner/name`, or GitLab's `group/subgroup/name`. Throws BadRequest. */
export function parseRepositoryName(name: string): string[] {
  const parts = name.split("/");
  const fits =
    parts.length >= 2 &&
    parts.length <= 21 &&
    parts.every((part) => segment.test(part) && !/^\.{1,2}$/.test(part));
  if (!fits) throw new PlatformError("RepositoryPathInvalid");
  return parts;
}

/** `owner/name` encoded for a URL path. Throws BadRequest for other names. */
export function toRepositoryPath(name: string): string {
  const parts = parseRepositoryName(name);
  if (parts.length !== 2) throw new PlatformError("RepositoryPathInvalid");
  return parts.map(encodeURIComponent).join("/");
}

/** A file path encoded for a URL path. */
export function toFilePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** `owner/name` of a URL such as `https://github.com/owner/name.git`; undefined for other hosts. */
export function parseRepositoryUrl(text: string, host: string): string | undefined {
  const url = /^https?:\/\//i.test(text) ? URL.parse(text) : null;
  if (url?.host !== host) return undefined;
  const name = url.pathname.replace(/^\/|(\.git)?\/?$/g, "").replace(/\/-\/.*$/, "");
  return name.split("/").every((part) => segment.test(part)) && name.includes("/") ? name : undefined;
}
