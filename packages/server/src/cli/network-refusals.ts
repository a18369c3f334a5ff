import type { NetworkDecision, PageOf } from "@sandpiper/wire";
import type { Client } from "./client.ts";
import { inertLine } from "./inert.ts";

/** Hosts that a sentence names. */
const maxNamed = 5;

/** Newest decisions that are looked at. */
const limit = 100;

/** The number of the newest decision about a sandbox's network; 0 before the first one. */
export async function lastDecision(client: Client, sandboxId: string): Promise<number> {
  const { items } = await read(client, sandboxId, 1);
  return items[0]?.seq ?? 0;
}

/**
 * Says which hosts the network policy refused a sandbox after a decision, and which options would
 * allow them. Asks the server, because what a command prints may be forged.
 */
export async function describeRefusals(client: Client, sandboxId: string, after: number): Promise<string[]> {
  const { items } = await read(client, sandboxId, limit);
  const targets = new Map<string, string>();
  for (const { seq, decision, reason, host, port } of items.toReversed()) {
    // Other refusals, such as those of private addresses, need more than this option.
    const isPolicy = reason?.startsWith("The network policy of this sandbox allows no connection");
    if (seq <= after || decision !== "refused" || !isPolicy || !/^[\w-]+(?:\.[\w-]+)*$/.test(host)) continue;
    targets.set(`${host}:${port}`, port === 80 || port === 443 ? host : `${host}:${port}`);
  }
  if (targets.size === 0) return [];
  const names = [...targets.keys()].slice(0, maxNamed).map(inertLine).join(", ");
  const more = targets.size > maxNamed ? ` and ${targets.size - maxNamed} more` : "";
  const options = [...new Set(targets.values())]
    .slice(0, maxNamed)
    .map((host) => `--allow ${inertLine(host)}`);
  return [`The network refused ${names}${more}: a new run reaches that with ${options.join(" ")}`];
}

/** An older server may not know; then there is nothing to say. */
function read(client: Client, sandboxId: string, count: number): Promise<PageOf<NetworkDecision>> {
  const path = `/api/v1/sandboxes/${encodeURIComponent(sandboxId)}/network/decisions?limit=${count}`;
  return client
    .json<PageOf<NetworkDecision>>("GET", path)
    .catch(() => ({ items: [], next_page_id: null }) as PageOf<NetworkDecision>);
}
