import type { Logger } from "@sandpiper/core/log/logger";
import type { NodeStore } from "../store/node-store.ts";

/**
 * Logs an error when this node gives nodes of other machines an address that leads back to
 * themselves. Where all nodes have such an address, they may be on one machine, and the log says
 * only what the address means.
 */
export async function checkAddress(
  { url, place }: { url: string; place: string | null },
  { nodes, logger }: { nodes: Pick<NodeStore, "list">; logger: Pick<Logger, "error" | "info"> },
): Promise<void> {
  if (!isLoopback(url)) return;
  const others = (await nodes.list()).filter(
    (node) => node.url !== url && (place === null || node.place !== place),
  );
  if (others.length === 0) return;
  const facts = { url, others: others.map((node) => node.url) };
  if (facts.others.every(isLoopback))
    logger.info(facts, "only servers on this machine reach this server: others need SANDPIPER_NODE_URL");
  else
    logger.error(
      facts,
      "other machines cannot reach this server at its address: set SANDPIPER_NODE_URL to one that they reach",
    );
}

function isLoopback(url: string): boolean {
  return /^http:\/\/(127\.|localhost[:/]|\[::1\])/.test(`${url}/`);
}
