import { posix } from "node:path";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import { runToEnd } from "@sandpiper/sandbox/shell/run";

/** Longest file that names servers, bytes. */
const maxBytes = 262_144;

const printScript = 'head -c "$2" -- "$1/.mcp.json" 2>/dev/null || :';

/** The MCP servers that the files `.mcp.json` of plugins name, by name; of two with one name the first counts. A file that cannot be read names none. */
export async function loadPluginServers(
  sandbox: CommandRunner,
  folders: readonly string[],
): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const folder of folders) {
    const argv = [...(sandbox.shell ?? ["sh"]), "-c", printScript, "sh", folder, String(maxBytes)];
    const { stdout } = await runToEnd(
      sandbox,
      { argv, cwd: "/" },
      { timeoutMs: 10_000, maxOutputBytes: maxBytes },
    );
    for (const [name, server] of Object.entries(parseServersFile(stdout.toString(), folder)))
      if (!Object.hasOwn(found, name)) found[name] = server;
  }
  return found;
}

function parseServersFile(text: string, folder: string): Record<string, unknown> {
  try {
    // Files name the plugin's own folder by a variable.
    const root = JSON.stringify(posix.normalize(folder)).slice(1, -1);
    const file = JSON.parse(
      text.replaceAll(/\$\{(?:CLAUDE_|OPENHANDS_)?PLUGIN_ROOT\}/g, () => root),
    ) as Record<string, unknown>;
    const servers = file.mcpServers ?? file;
    return typeof servers === "object" && servers !== null && !Array.isArray(servers)
      ? (servers as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}
