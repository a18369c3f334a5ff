import { type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from "node:http";
import type { PlatformError } from "@sandpiper/core/errors";

/** The page has no script and loads nothing. */
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const pageStyle =
  "body{font:16px/1.5 system-ui,sans-serif;color-scheme:light dark;max-width:36em;margin:20vh auto;padding:0 1em}h1{font-size:1.3em}";

/** Seconds after which a browser retries. */
const reloadSeconds = 2;

/**
 * Responds to a request that does not reach the app: a page for browsers, else JSON with a
 * `detail`. Closes the connection if a body may still arrive.
 */
export function respondWithError(
  request: IncomingMessage,
  response: ServerResponse,
  error: PlatformError,
): void {
  const { status } = error;
  const asPage = /\btext\/html\b/.test(request.headers.accept ?? "");
  // A server in the sandbox may be starting.
  const reload = error.code === "PortUnreachable" && request.method === "GET";
  const body = asPage ? renderPage(status, error.message, reload) : JSON.stringify({ detail: error.message });
  if (hasBody(request)) response.shouldKeepAlive = false;
  response.writeHead(status, {
    ...(status === 401 ? { "www-authenticate": "Bearer" } : {}),
    "content-type": asPage ? "text/html; charset=utf-8" : "application/json",
    "content-length": Buffer.byteLength(body),
    "content-security-policy": pagePolicy,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

/** Responds without a body, for example with a redirect; the browser sends no Referer. */
export function respondEmpty(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
): void {
  if (hasBody(request)) response.shouldKeepAlive = false;
  const length = status === 204 ? {} : { "content-length": 0 };
  response.writeHead(status, {
    ...headers,
    ...length,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
  });
  response.end();
}

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function renderPage(status: number, sentence: string, reload: boolean): string {
  const title = escapeHtml(STATUS_CODES[status]!);
  const refresh = reload ? `<meta http-equiv="refresh" content="${reloadSeconds}">` : "";
  const note = reload ? "<p>This page looks again every few seconds.</p>" : "";
  return `<!doctype html><html lang="en"><meta charset="utf-8">${refresh}<title>${title}</title><style>${pageStyle}</style><h1>${title}</h1><p>${escapeHtml(sentence)}</p>${note}</html>\n`;
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
