import { PlatformError } from "@sandpiper/core/errors";
import type { Decision } from "@sandpiper/sandbox/network/api";
import { isoTime, type NetworkDecision, NetworkDecisionPage, SandboxNetwork } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import { PageQuery, toWirePage } from "../../server/params.ts";
import type { Principal } from "../../server/principal.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { normalizeSandboxId } from "./sandboxes.ts";

const SandboxPath = Type.Object({ sandbox_id: Type.String() });
const url = "/api/v1/sandboxes/:sandbox_id/network";

/**
 * A sandbox's network policy and the proxy's decisions; an addition to the contract. Does not wake
 * the sandbox.
 */
export function sandboxNetworkRoutes(
  app: App,
  { sandboxes, egress, secrets }: Pick<HttpServices, "sandboxes" | "egress" | "secrets">,
): void {
  const route = makeRoute(["sandboxes"]);
  const owned = async (principal: Principal, text: string) => {
    const row = await sandboxes.get(principal.userId, normalizeSandboxId(text));
    if (!row) throw new PlatformError("SandboxUnknown");
    return row;
  };

  app.get(
    url,
    route("Read the sandbox's network policy", { params: SandboxPath, response: { 200: SandboxNetwork } }),
    async (request) => {
      const row = await owned(request.principal, request.params.sandbox_id);
      const { network } = sandboxes.getSpec(row);
      const named = network.allow.map(({ host }) => host);
      const own = network.userSecrets ? await secrets.forSandbox(row.userId, row.id) : [];
      const ofUser = own.map(({ variable, hosts }) => ({ name: variable, hosts: [...(hosts ?? named)] }));
      const ofPolicy = network.credentials.map(({ name, hosts }) => ({ name, hosts }));
      const credentials = [...ofPolicy, ...ofUser];
      return { mode: network.mode, allow: network.allow, credentials, private: network.private ?? [] };
    },
  );
  app.get(
    `${url}/decisions`,
    route("List the sandbox's requests and the egress proxy's decisions, newest first", {
      params: SandboxPath,
      querystring: PageQuery,
      response: { 200: NetworkDecisionPage },
    }),
    async (request) => {
      const { id } = await owned(request.principal, request.params.sandbox_id);
      const { limit, page_id: pageId } = request.query;
      const before = /^\d{1,15}$/.test(pageId ?? "") ? Number(pageId) : undefined;
      // The additional item shows whether there is a next page.
      const found = await egress.decisions(id, { limit: limit + 1, before });
      const items = found.slice(0, limit);
      return toWirePage({
        items: items.map(toNetworkDecision),
        nextPageId: found.length > limit ? String(items.at(-1)!.seq) : null,
      });
    },
  );
}

function toNetworkDecision({ at, bytesUp, bytesDown, durationMs, ...decision }: Decision): NetworkDecision {
  return { ...decision, at: isoTime(at), bytes_up: bytesUp, bytes_down: bytesDown, duration_ms: durationMs };
}
