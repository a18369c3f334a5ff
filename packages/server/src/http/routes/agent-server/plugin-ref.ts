import { posix } from "node:path";
import type { SkillLibrary } from "@sandpiper/agent/skills/library/library";
import { PlatformError } from "@sandpiper/core/errors";
import type { MarketplaceRegistration, PluginSpec } from "@sandpiper/wire";

/**
 * Resolves a `plugin_ref` (agent-server.md section 3): `name@marketplace` or a name is looked up in
 * the user's marketplaces; anything else is a plugin source. Throws PluginNotFound.
 */
export async function resolvePluginRef(
  text: string,
  registered: readonly MarketplaceRegistration[],
  library: Pick<SkillLibrary, "preview">,
): Promise<PluginSpec> {
  const [, name, market] = /^([\w.-]+)(?:@([\w.-]+))?$/.exec(text.trim()) ?? [];
  if (name === undefined) return { source: text.trim() };
  const wanted = registered.filter((one) => market === undefined || one.name === market);
  if (wanted.length === 0)
    throw market === undefined
      ? new PlatformError("MarketplaceMissing")
      : new PlatformError("MarketplaceUnknown", { name: market });
  const { plugins, errors } = await library.preview(wanted);
  const plugin = plugins.find((one) => one.name === name);
  if (!plugin)
    throw errors[0] === undefined
      ? new PlatformError("MarketplacePluginUnknown", { name })
      : new PlatformError("MarketplaceUnreadable", { reason: errors[0] });
  if (/^(?:github:|https?:)/.test(plugin.source)) return { source: plugin.source };
  const { source, ref, repo_path: root } = wanted.find((one) => one.name === plugin.marketplace)!;
  return { source, ref: ref ?? null, repo_path: posix.join(root ?? "", plugin.source || plugin.name) };
}
