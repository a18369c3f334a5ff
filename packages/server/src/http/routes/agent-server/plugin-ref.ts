import { posix } from "node:path";
import type { SkillLibrary } from "@sandpiper/agent/skills/library/library";
import { PlatformError } from "@sandpiper/core/errors";
import type { MarketplaceRegistration, PluginSpec } from "@sandpiper/wire";

/**
 * What a `plugin_ref` means (agent-server.md section 3): `name@marketplace`, or a name alone, is looked up in the marketplaces that the user has
 * registered; everything else is where a plugin comes from, as at the start of a conversation. Throws PluginNotFound.
 */
export async function readPluginRef(
  text: string,
  registered: readonly MarketplaceRegistration[],
  library: Pick<SkillLibrary, "preview">,
): Promise<PluginSpec> {
  const [, name, market] = /^([\w.-]+)(?:@([\w.-]+))?$/.exec(text.trim()) ?? [];
  if (name === undefined) return { source: text.trim() };
  const wanted = registered.filter((one) => market === undefined || one.name === market);
  if (wanted.length === 0)
    throw notFound(
      market === undefined
        ? "The settings have no marketplace."
        : `The settings have no marketplace ${market}.`,
    );
  const { plugins, errors } = await library.preview(wanted);
  const plugin = plugins.find((one) => one.name === name);
  if (!plugin) throw notFound(errors[0] ?? `No plugin of the marketplace is called ${name}.`);
  if (/^(?:github:|https?:)/.test(plugin.source)) return { source: plugin.source };
  const { source, ref, repo_path: root } = wanted.find((one) => one.name === plugin.marketplace)!;
  return { source, ref: ref ?? null, repo_path: posix.join(root ?? "", plugin.source || plugin.name) };
}

function notFound(sentence: string): PlatformError {
  return new PlatformError("PluginNotFound", sentence);
}
