import { PlatformError } from "../errors.ts";
import type { Outbound } from "./api.ts";

/** No way out, for replays: every request is refused with OutboundRefused. */
export const closedOutbound: Outbound & { close(): Promise<void> } = {
  async fetch(url) {
    throw refusal(url);
  },
  check(url) {
    throw refusal(url);
  },
  async connect({ host }) {
    throw new PlatformError("NoNetwork", { host });
  },
  async close() {},
};

function refusal(url: string): PlatformError {
  return new PlatformError("NoNetwork", { host: URL.parse(url)?.host ?? "The address" });
}
