import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { RemoteAddress } from "./addresses.ts";
import { remoteFetch } from "./remote-fetch.ts";
import { GuardedTransport } from "./transport.ts";

/** Time to end the session, ms. */
const farewellMs = 2_000;

/** A transport for one of the two protocols (`sse` is the older). Loads the library when needed. */
export async function remoteTransport(
  { url, headers, secret }: RemoteAddress,
  {
    sse,
    outbound,
    silenceMs,
  }: { sse: boolean; outbound: Pick<Outbound, "fetch">; silenceMs?: number | undefined },
): Promise<GuardedTransport> {
  const closing = new AbortController();
  let guarded: GuardedTransport | undefined;
  const fetch = remoteFetch({
    outbound,
    headers,
    secret,
    signal: closing.signal,
    silenceMs,
    onEnd(id, { problem, silence }) {
      if (problem !== undefined) return guarded?.fail(problem);
      // SSE has all answers in one stream; the session ends with it.
      if (!sse && id !== undefined)
        guarded?.answerEnded(id, silence ?? "The server ended its answer before the result.");
      if (sse && id === undefined) guarded?.fail(silence ?? "The server ended the connection.");
    },
  });
  const inner: Transport = sse
    ? new (await import("@modelcontextprotocol/sdk/client/sse.js")).SSEClientTransport(url, { fetch })
    : await streamable(url, fetch);
  const { close } = inner;
  inner.close = async () => {
    await close.call(inner);
    closing.abort(new Error("The connection was closed."));
  };
  guarded = new GuardedTransport(inner);
  return guarded;
}

async function streamable(url: URL, fetch: ReturnType<typeof remoteFetch>): Promise<Transport> {
  const { StreamableHTTPClientTransport } = await import(
    "@modelcontextprotocol/sdk/client/streamableHttp.js"
  );
  const transport = new StreamableHTTPClientTransport(url, { fetch });
  const { close } = transport;
  // The server may forget the session.
  transport.close = async () => {
    if (transport.sessionId !== undefined) {
      const late = new Promise<void>((resolve) => setTimeout(resolve, farewellMs).unref());
      await Promise.race([transport.terminateSession().catch(() => {}), late]);
    }
    await close.call(transport);
  };
  return transport as Transport;
}
