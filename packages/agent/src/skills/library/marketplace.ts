import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import { trimBoth, trimTail } from "@sandpiper/core/trim";
import type { MarketplacePluginPreview, MarketplaceRegistration } from "@sandpiper/wire";
import type { Skill } from "../skill.ts";
import { readArchive } from "./archive.ts";
import { mayHoldSkill, parseSkills, type SkillText } from "./files.ts";

export interface Marketplace {
  skills: Skill[];
  plugins: MarketplacePluginPreview[];
}

/** Largest archive in bytes, and time to fetch it in ms. */
const maxArchiveBytes = 32 * 1024 * 1024;
const timeoutMs = 30_000;

const owner = /^[\w.-]+\/[\w.-]+$/;

const maxPlugins = 200;

const indexes = [".plugin/marketplace.json", ".claude-plugin/marketplace.json", "marketplace.json"];

/** Fetches and reads a marketplace's repository. Throws a PlatformError naming the reason. */
export async function fetchMarketplace(
  outbound: Outbound,
  registration: MarketplaceRegistration,
): Promise<Marketplace> {
  const root = trimBoth(registration.repo_path ?? "", "/");
  const inRoot = (path: string) => root === "" || path.startsWith(`${root}/`);
  const relative = (path: string) => (root === "" ? path : path.slice(root.length + 1));
  const isWanted = (path: string) =>
    inRoot(path) && (mayHoldSkill(relative(path)) || indexes.includes(relative(path)));
  const found = await fetchFiles(outbound, archiveUrls(registration), isWanted);
  const files = found.map(({ path, content }) => ({ path: relative(path), content }));
  const texts = files.filter(({ path }) => !indexes.includes(path));
  return { skills: await parseSkills(texts, "user"), plugins: parsePlugins(files, registration.name) };
}

async function fetchFiles(
  outbound: Outbound,
  urls: string[],
  isWanted: (path: string) => boolean,
): Promise<SkillText[]> {
  for (const url of urls) {
    const response = await outbound.fetch(url, { maxBytes: maxArchiveBytes, timeoutMs });
    if (response.ok && response.body) return readArchive(response.body, isWanted);
    await response.body?.cancel();
    const { host } = new URL(url);
    if (response.status !== 404)
      throw new PlatformError("MarketplaceRefused", { host, status: response.status });
  }
  throw new PlatformError("MarketplaceNotFound", { host: new URL(urls[0]!).host });
}

function parsePlugins(files: readonly SkillText[], marketplace: string): MarketplacePluginPreview[] {
  const index = indexes.flatMap((name) => files.find(({ path }) => path === name) ?? [])[0];
  const listed = (parseJson(index?.content) as { plugins?: unknown } | undefined)?.plugins;
  if (!Array.isArray(listed)) return [];
  return listed
    .slice(0, maxPlugins)
    .flatMap((plugin: { name?: unknown; description?: unknown; source?: unknown } | null) => {
      if (typeof plugin?.name !== "string") return [];
      const { name, description, source } = plugin;
      return {
        name: name.slice(0, 128),
        description: typeof description === "string" ? description.slice(0, 1024) : null,
        source: typeof source === "string" ? source.slice(0, 1024) : "",
        marketplace,
      };
    });
}

function parseJson(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Possible archive URLs of a marketplace's repository, best first. A source is `owner/repo` or
 * `github:owner/repo` at GitHub, or a URL at a GitHub, GitLab or Forgejo host. Throws
 * InvalidParameter for others.
 */
function archiveUrls({ source, ref }: Pick<MarketplaceRegistration, "source" | "ref">): string[] {
  const version = ref?.trim() || "HEAD";
  if (!/^[\w][\w./+-]{0,255}$/.test(version) || version.includes(".."))
    throw invalid("its ref is no name of a branch, tag or commit");
  const name = source.trim().replace(/^github:/, "");
  const isShort = owner.test(name) && !/^\.|\/\./.test(name);
  const url = isShort ? new URL(`https://github.com/${name}`) : URL.parse(name);
  if (!url || !/^https?:$/.test(url.protocol))
    throw invalid("its source is neither owner/repo nor the web address of a repository");
  if (url.username || url.password) throw invalid("its source holds a user or a password");
  const path = trimTail(url.pathname, "/").replace(/\.git$/, "");
  const parts = path.split("/").slice(1);
  if (parts.length < 2 || parts.some((part) => part === "" || part.startsWith(".")))
    throw invalid("its source names no repository");
  const last = parts.at(-1)!;
  const plain = `${url.origin}${path}/archive/${version}.tar.gz`;
  if (url.host === "github.com") return [plain];
  return [`${url.origin}${path}/-/archive/${encodeURIComponent(version)}/${last}.tar.gz`, plain];
}

function invalid(reason: string): PlatformError {
  return new PlatformError("MarketplaceInvalid", { reason });
}
