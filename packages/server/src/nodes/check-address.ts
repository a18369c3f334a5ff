import type { Logger } from "@sandpiper/core/log/logger";
import type { NodeStore } from "../store/node-store.ts";

/** Warns when this node gives nodes of other machines an address that leads back to themselves. */
export async function checkAddress(
  { url, place }: { url: string; place: string | null },
  { nodes, logger }: { nodes: Pick<NodeStore, "list">; logger: Pick<Logger, "error"> },
): Promise<void> {
  if (!/^http:\/\/(127\.|localhost[:/]|\[::1\])/.test(`${url}/`)) return;
  const others = (await nodes.list()).filter(
    (node) => node.url !== url && (place === null || node.place !== place),
  );
  if (others.length === 0) return;
  logger.error(
    { url, others: others.map((node) => node.url) },
    "other machines cannot reach this server at its address: set SANDPIPER_NODE_URL to one that they reach",
  );
}
