import type { TestServer } from "./test-server.ts";

/** What a browser sends with a request of the server's own page. */
export const ownPage = { "sec-fetch-site": "same-origin" };

/** Makes functions that send requests without a key. `server` is called with each request. */
export function makeLoginRequests(server: () => TestServer) {
  return {
    call: (method: string, path: string, headers: Record<string, string> = {}, body?: unknown) =>
      server().call(method, path, { key: null, headers, ...(body !== undefined && { body }) }),
    /** Sends the form of the login page, and follows no redirect. */
    form: (text: string, headers: Record<string, string> = {}) =>
      fetch(`${server().url}/login`, {
        method: "POST",
        redirect: "manual",
        headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
        body: text,
      }),
  };
}
