import { type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from "node:http";
import type { PlatformError } from "@sandpiper/core/errors";

/** The page has no script and loads nothing. */
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const pageStyle =
  "body{font:16px/1.5 system-ui,sans-serif;color-scheme:light dark;max-width:36em;margin:20vh auto;padding:0 1em}h1{font-size:1.3em}";

/** Seconds after which a browser looks again whether the app answers. */
const reloadSeconds = 2;

/**
 * Answers a request that does not reach the app: a page for browsers, else JSON with a `detail`. The connection is closed where a body may
 * still be on its way.
 */
export function answerError(request: IncomingMessage, response: ServerResponse, error: PlatformError): void {
  const { status } = error;
  const asPage = /\btext\/html\b/.test(request.headers.accept ?? "");
  // A server in the sandbox may just be starting.
  const reload = error.code === "PortUnreachable" && request.method === "GET";
  const body = asPage ? page(status, error.message, reload) : JSON.stringify({ detail: error.message });
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

/** Answers with headers alone, such as those of a redirect; a browser does not tell the next server where it comes from. */
export function answerEmpty(
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

/** Whether a request brings a body, which may still be on its way. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function page(status: number, sentence: string, reload: boolean): string {
  const title = escaped(STATUS_CODES[status]!);
  const refresh = reload ? `<meta http-equiv="refresh" content="${reloadSeconds}">` : "";
  const note = reload ? "<p>This page looks again every few seconds.</p>" : "";
  return `<!doctype html><html lang="en"><meta charset="utf-8">${refresh}<title>${title}</title><style>${pageStyle}</style><h1>${title}</h1><p>${escaped(sentence)}</p>${note}</html>\n`;
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
