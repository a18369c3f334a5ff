import type { IncomingMessage } from "node:http";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Ownership } from "../../nodes/api.ts";
import type { ConnectionGuard } from "../server/connections/connection-guard.ts";
import type { Principal } from "../server/principal.ts";
import type { Subject } from "./concern.ts";
import { type FindSandboxDeps, findSandbox, type SandboxTarget } from "./find-sandbox.ts";
import { Forwarder } from "./forwarder.ts";
import { NodeClient } from "./node-client.ts";
import { Passes } from "./pass.ts";
import { receivePass } from "./received.ts";

/** What a node needs to pass requests on to the owners of sandboxes. */
export interface ForwardingDeps extends Omit<FindSandboxDeps, "sandboxes"> {
  ownership: Pick<Ownership, "locate" | "nodeCount"> & {
    /** Incarnation of this node. */
    readonly incarnation: string;
  };
  /** Key that signs passes; all nodes have the same one. */
  passKey: Uint8Array;
}

/** The forwarding of requests and handshakes. */
export interface Forwarding extends Pick<Forwarder, "request" | "upgrade" | "socket" | "leave" | "close"> {
  /**
   * Removes the pass from a request. Call this function before other code reads the headers of the
   * request.
   */
  receive(request: IncomingMessage): void;
  /** See `findSandbox`. */
  find(
    caller: Principal | undefined,
    subject: Subject | undefined,
    isForwarded?: boolean,
  ): Promise<SandboxTarget | undefined>;
}

export function createForwarding(
  { ownership, passKey, ...stores }: ForwardingDeps,
  {
    sandboxes,
    connections,
  }: { sandboxes: Pick<Sandboxes, "get">; connections: Pick<ConnectionGuard, "exempt"> },
): Forwarding {
  const passes = new Passes(passKey);
  const forwarder = new Forwarder({ ownership, client: new NodeClient(passes) });
  return {
    receive: (request) => receivePass(request, { passes, node: ownership.incarnation, connections }),
    find: (caller, subject, isForwarded) =>
      findSandbox({ ...stores, sandboxes }, caller, subject, isForwarded),
    request: (sandboxId, incoming) => forwarder.request(sandboxId, incoming),
    upgrade: (sandboxId, incoming) => forwarder.upgrade(sandboxId, incoming),
    socket: (sandboxId, incoming, key) => forwarder.socket(sandboxId, incoming, key),
    leave: () => forwarder.leave(),
    close: () => forwarder.close(),
  };
}
