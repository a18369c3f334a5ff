import { createHash } from "node:crypto";

/** A page and the headers that go with it. */
export interface Page {
  body: Buffer;
  headers: Readonly<Record<string, string>>;
}

/**
 * The start page of Agent Canvas, locked to the address that serves it, with the cookie of the
 * login (canvas-gui.md section 1.1), and without telemetry. `origins` are the addresses of the
 * server, because the address of a conversation's socket is the server's own.
 */
export function makeCanvasPage(index: string, origins: readonly string[]): Page {
  const globals =
    "<script>window.__AGENT_CANVAS_LOCK_TO_CLOUD__=location.origin;window.__AGENT_CANVAS_DO_NOT_TRACK__=true;</script>";
  const html = index.replace("</head>", `${globals}</head>`);
  const scripts = [...html.matchAll(/<script\b[^>]*>([\s\S]*?)<\/script>/g)]
    .map(([, script]) => script!)
    .filter((script) => script !== "")
    .map(hashOf);
  const sockets = origins.map((origin) => origin.replace(/^http/, "ws"));
  return makePage(html, [
    "default-src 'none'",
    `script-src 'self' ${scripts.join(" ")}`,
    // The libraries of the page write style elements of their own.
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "media-src 'self' blob:",
    "worker-src 'self' blob:",
    "frame-src 'self' blob:",
    "manifest-src 'self'",
    `connect-src 'self' ${[...origins, ...sockets].join(" ")}`,
  ]);
}

/**
 * The page of the address with the one-time token: it exchanges the token for the login's cookie
 * and goes on to the start page, which asks for a key when there is no login.
 */
export function makeOpeningPage(): Page {
  const script =
    'const token=location.hash.slice(1);history.replaceState(null,"","/open");' +
    'fetch("/open",{method:"POST",body:token}).finally(()=>location.replace("/"));';
  return makePage(
    `<!doctype html><html lang="en"><meta charset="utf-8"><title>Sandpiper</title><p>Opening Agent Canvas …</p><script>${script}</script></html>\n`,
    ["default-src 'none'", `script-src ${hashOf(script)}`, "connect-src 'self'"],
  );
}

/** A page with one sentence. */
export function makeProblemPage(sentence: string): Page {
  return makePage(
    `<!doctype html><html lang="en"><meta charset="utf-8"><title>Sandpiper</title><p>${escapeHtml(sentence)}</p></html>\n`,
    ["default-src 'none'"],
  );
}

function makePage(html: string, policy: readonly string[]): Page {
  const always = ["base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'", "object-src 'none'"];
  return {
    body: Buffer.from(html),
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": [...policy, ...always].join("; "),
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
    },
  };
}

function hashOf(script: string): string {
  return `'sha256-${createHash("sha256").update(script).digest("base64")}'`;
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
