import { createHmac, timingSafeEqual } from "node:crypto";

/** Header with which a node shows another one that it has forwarded a request. */
export const passHeader = "x-sandpiper-forwarded";

/** How long a pass is valid, ms; the clocks of the nodes may differ by as much. */
const validMs = 30_000;

/** The content of a pass. */
export interface Pass {
  /** Address of the peer of the first node's connection: the client, or its proxy. */
  client: string;
}

/** The request that a pass is for. */
export interface PassedRequest {
  /** Incarnation of the node that gets the request. */
  node: string;
  method: string;
  url: string;
}

/**
 * Passes of forwarded requests, signed with a key that all nodes derive from the key of the vault.
 * A pass is for one request to one node, and ends after half a minute.
 */
export class Passes {
  readonly #key: Uint8Array;
  readonly #now: () => number;

  constructor(key: Uint8Array, now: () => number = Date.now) {
    this.#key = key;
    this.#now = now;
  }

  make(request: PassedRequest, { client }: Pass): string {
    const expires = Math.floor((this.#now() + validMs) / 1000).toString(36);
    const text = Buffer.from(client).toString("base64url");
    return `${expires}.${text}.${this.#sign(request, expires, text).toString("base64url")}`;
  }

  /**
   * Returns the content of a pass; undefined when the pass is not for this request, or has ended.
   */
  check(request: PassedRequest, pass: unknown): Pass | undefined {
    if (typeof pass !== "string") return undefined;
    const [, expires, text, signature] = /^([0-9a-z]{1,10})\.([\w-]{0,120})\.([\w-]{43})$/.exec(pass) ?? [];
    if (expires === undefined || text === undefined || signature === undefined) return undefined;
    const given = Buffer.from(signature, "base64url");
    if (!timingSafeEqual(given, this.#sign(request, expires, text))) return undefined;
    const left = Number.parseInt(expires, 36) * 1000 - this.#now();
    if (left < -validMs || left > 2 * validMs) return undefined;
    return { client: Buffer.from(text, "base64url").toString() };
  }

  #sign({ node, method, url }: PassedRequest, expires: string, text: string): Buffer {
    return createHmac("sha256", this.#key)
      .update(JSON.stringify([node, method, url, expires, text]))
      .digest();
  }
}
