import { PlatformError } from "@sandpiper/core/errors";
import type { MarketplaceRegistration } from "@sandpiper/wire";

const owner = /^[\w.-]+\/[\w.-]+$/;

/**
 * Possible archive URLs of a marketplace's repository, best first. A source is `owner/repo` or
 * `github:owner/repo` at GitHub, or a URL at a GitHub, GitLab or Forgejo host. Throws
 * InvalidParameter for others.
 */
export function archiveUrls({ source, ref }: Pick<MarketplaceRegistration, "source" | "ref">): string[] {
  const version = ref?.trim() || "HEAD";
  if (!/^[\w][\w./+-]{0,255}$/.test(version) || version.includes(".."))
    throw refused("its ref is no name of a branch, tag or commit");
  const name = source.trim().replace(/^github:/, "");
  const isShort = owner.test(name) && !/^\.|\/\./.test(name);
  const url = isShort ? new URL(`https://github.com/${name}`) : URL.parse(name);
  if (!url || !/^https?:$/.test(url.protocol))
    throw refused("its source is neither owner/repo nor the web address of a repository");
  if (url.username || url.password) throw refused("its source holds a user or a password");
  const path = url.pathname.replace(/\/+$/, "").replace(/\.git$/, "");
  const parts = path.split("/").slice(1);
  if (parts.length < 2 || parts.some((part) => part === "" || part.startsWith(".")))
    throw refused("its source names no repository");
  const last = parts.at(-1)!;
  const plain = `${url.origin}${path}/archive/${version}.tar.gz`;
  if (url.host === "github.com") return [plain];
  return [`${url.origin}${path}/-/archive/${encodeURIComponent(version)}/${last}.tar.gz`, plain];
}

function refused(reason: string): PlatformError {
  return new PlatformError("InvalidParameter", `The marketplace cannot be used: ${reason}.`);
}
