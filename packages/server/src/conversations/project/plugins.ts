import { createHash } from "node:crypto";
import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { trimTail } from "@sandpiper/core/trim";
import type { Content, PluginSpec, ProviderType } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { ProviderToken } from "../../users/api.ts";
import { checkBranch, type ProjectRepository, resolveRepository } from "./repository.ts";

/** A validated plugin request. */
export interface Plugin {
  repository: ProjectRepository;
  ref: string | null;
  /** Folder of the plugin inside its repository; empty for the whole repository. */
  path: string;
}

/** Maximum characters of one parameter in the first message. */
const maxParameter = 4000;

/** Parses `github:owner/repo`, `owner/repo`, or an https URL. Throws InvalidParameter. */
export function parsePlugin(spec: PluginSpec, tokens: ReadonlyMap<ProviderType, ProviderToken>): Plugin {
  const [, named, name] = /^(?:(github|gitlab|bitbucket|forgejo):)?([^:]+)$/.exec(spec.source.trim()) ?? [];
  const repository =
    name !== undefined && !name.startsWith("/") && !name.startsWith(".")
      ? resolveRepository(name, (named ?? "github") as ProviderType, tokens, "source of a plugin")
      : parsePluginUrl(spec.source.trim());
  const path = posix.normalize(spec.repo_path?.trim() || ".");
  if (path.startsWith("..") || path.startsWith("/") || path.includes("\0"))
    throw new PlatformError("PluginPathInvalid");
  return { repository, ref: spec.ref ? checkBranch(spec.ref) : null, path: path === "." ? "" : path };
}

function parsePluginUrl(text: string): ProjectRepository {
  const url = URL.parse(text);
  const path = trimTail(url?.pathname.slice(1) ?? "", "/").replace(/\.git$/, "");
  const folder = path.split("/").at(-1) ?? "";
  const plain =
    url?.protocol === "https:" &&
    url.username === "" &&
    url.password === "" &&
    url.search === "" &&
    url.hash === "";
  if (!url || !plain || !/^[A-Za-z0-9_.~][A-Za-z0-9_.~-]*$/.test(folder))
    throw new PlatformError("PluginSourceInvalid");
  return { fullName: path, folder, provider: "github", host: url.host, url: url.href, login: null };
}

/** Folder of a plugin's repository below a home folder, derived from its source and ref. */
export function pluginFolder(home: string, { repository, ref }: Plugin): string {
  const word = createHash("sha256").update(`${repository.url} ${ref}`).digest("hex").slice(0, 12);
  return posix.join(home, ".sandpiper-plugins", `${repository.folder}-${word}`);
}

/** The first message followed by the plugin parameters, as the reference sends them. */
export function appendParameters(
  content: Content[] | undefined,
  plugins: readonly PluginSpec[],
): Content[] | undefined {
  const configured = plugins.filter(({ parameters }) => parameters && Object.keys(parameters).length > 0);
  if (configured.length === 0) return content;
  const blocks = configured.map(({ source, parameters }) => {
    const lines = Object.entries(parameters ?? {}).map(([name, value]) => `- ${name}: ${formatValue(value)}`);
    return `Plugin Configuration Parameters${configured.length > 1 ? ` of ${source}` : ""}:\n${lines.join("\n")}`;
  });
  return [...(content ?? []), textContent(blocks.join("\n\n"))];
}

function formatValue(value: unknown): string {
  return (typeof value === "string" ? value : JSON.stringify(value)).slice(0, maxParameter);
}
