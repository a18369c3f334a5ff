import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

/** A request as a provider's server sees it. */
export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  body: string;
}

/** The response; a string is sent unchanged, everything else as JSON. */
export interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

/** A real server on loopback that speaks a provider's API. */
export interface ProviderServer {
  /** As a user writes it: `http://127.0.0.1:…`. */
  host: string;
  asked: Asked[];
  /** While it is set, every request gets this answer. */
  refusal: Answer | undefined;
  close(): void;
}

/** Serves an API: a wrong authorization gets 401, a path without an `answer` 404. */
export async function serveProvider(
  authorization: string,
  answer: (asked: Asked) => Answer | undefined,
): Promise<ProviderServer> {
  const server = createServer(async (request, response) => {
    const url = new URL(request.url!, "http://provider.example");
    const body = (await request.toArray()).join("");
    const asked = {
      method: request.method!,
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body,
    };
    provider.asked.push(asked);
    const allowed = request.headers.authorization === authorization;
    const given =
      provider.refusal ?? (allowed ? answer(asked) : { status: 401, body: { message: "Bad credentials" } });
    const {
      status = 200,
      headers = {},
      body: value,
    } = given ?? { status: 404, body: { message: "Not Found" } };
    const text = typeof value === "string" ? value : JSON.stringify(value);
    response
      .writeHead(status, {
        "content-type": typeof value === "string" ? "text/plain" : "application/json",
        ...headers,
      })
      .end(text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const provider: ProviderServer = {
    host: `http://127.0.0.1:${port}`,
    asked: [],
    refusal: undefined,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return provider;
}

/** A page of a list, and whether there are more. */
export function cut<T>(
  items: readonly T[],
  query: URLSearchParams,
  sizeKey: string,
): { items: T[]; page: number; more: boolean } {
  const size = Number(query.get(sizeKey) ?? 30);
  const page = Number(query.get("page") ?? 1);
  return { items: items.slice((page - 1) * size, page * size), page, more: page * size < items.length };
}

/** The answer of GitHub and Forgejo: the next page stands in the `Link` header. */
export function linked<T>(
  items: readonly T[],
  { path, query }: Asked,
  sizeKey: string,
  shape: (items: T[]) => unknown = (all) => all,
): Answer {
  const { items: some, page, more } = cut(items, query, sizeKey);
  const next = new URLSearchParams(
    [...query].filter(([key]) => key !== "page").concat([["page", String(page + 1)]]),
  );
  const link = `<https://provider.example${path}?${next}>; rel="next", <https://provider.example${path}?page=99>; rel="last"`;
  return { headers: more ? { link } : {}, body: shape(some) };
}
