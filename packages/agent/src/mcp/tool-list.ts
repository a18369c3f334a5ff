import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { TSchema } from "typebox";
import { inputSchema } from "./input-schema.ts";
import { shownText } from "./message-text.ts";

/** A server's tool, reduced to what fits into a prompt. */
export interface ListedTool {
  name: string;
  description: string;
  parameters: TSchema;
  /** Characters of its description and parameters. */
  size: number;
  /** True only when the server says so. */
  readOnly: boolean;
  idempotent: boolean;
  /** False only when the server says so. */
  destructive: boolean;
  /** The server says so explicitly; `destructive` is also the default. */
  saysDestructive: boolean;
  openWorld: boolean;
}

/** Tools per server, characters of all, and pages. */
export const maxTools = 200;
const maxText = 256 * 1024;
const maxPages = 50;
const maxDescription = 4_000;

const listTimeoutMs = 30_000;

/** Lists a server's tools; skips invalid and secret ones. Throws what the request throws. */
export async function listTools(
  client: Client,
  { signal, shown }: { signal: AbortSignal; shown: (text: string) => string },
): Promise<{ tools: ListedTool[]; more: boolean }> {
  const { ResultSchema } = await import("@modelcontextprotocol/sdk/types.js");
  const tools = new Map<string, ListedTool>();
  const cursors = new Set<string>();
  let text = 0;
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const params = cursor === undefined ? {} : { cursor };
    // The library's own method would compile the server's schemas.
    const answer = await client.request({ method: "tools/list", params }, ResultSchema, {
      timeout: listTimeoutMs,
      signal,
    });
    for (const entry of Array.isArray(answer.tools) ? (answer.tools as unknown[]) : []) {
      if (tools.size >= maxTools || text > maxText) return { tools: [...tools.values()], more: true };
      const tool = readTool(entry, shown);
      if (!tool || tools.has(tool.name)) continue;
      text += tool.size;
      tools.set(tool.name, tool);
    }
    const next = answer.nextCursor;
    if (typeof next !== "string" || next === "" || cursors.has(next))
      return { tools: [...tools.values()], more: false };
    cursors.add(next);
    cursor = next;
  }
  return { tools: [...tools.values()], more: true };
}

type Entry = Record<string, unknown>;

function readTool(entry: unknown, shown: (text: string) => string): ListedTool | undefined {
  const { name, description, title, annotations, execution, ...rest } = (entry ?? {}) as Entry;
  if (typeof name !== "string" || name === "" || name.length > 256 || shown(name) !== name) return undefined;
  // It needs another way of calling.
  if ((execution as { taskSupport?: unknown } | undefined)?.taskSupport === "required") return undefined;
  const hints = (typeof annotations === "object" && annotations !== null ? annotations : {}) as Entry;
  const text = [description, title, hints.title].find((one) => typeof one === "string" && one.trim() !== "");
  const says = shownText((text as string | undefined) ?? name, maxDescription, shown);
  const parameters = inputSchema(rest.inputSchema, shown);
  return {
    name,
    description: says,
    parameters,
    size: says.length + JSON.stringify(parameters).length,
    readOnly: hints.readOnlyHint === true,
    idempotent: hints.idempotentHint === true || hints.readOnlyHint === true,
    destructive: hints.destructiveHint !== false && hints.readOnlyHint !== true,
    saysDestructive: hints.destructiveHint === true,
    openWorld: hints.openWorldHint !== false,
  };
}
