import { basename, extname } from "node:path";

/** Types that clients make use of; every other file is bytes. */
const types: Record<string, string> = {
  ".css": "text/css; charset=utf-8",
  ".csv": "text/csv; charset=utf-8",
  ".avif": "image/avif",
  ".gif": "image/gif",
  ".gz": "application/gzip",
  ".htm": "text/html; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".log": "text/plain; charset=utf-8",
  ".map": "application/json",
  ".md": "text/markdown; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".mp3": "audio/mpeg",
  ".mp4": "video/mp4",
  ".pdf": "application/pdf",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".tar": "application/x-tar",
  ".txt": "text/plain; charset=utf-8",
  ".ttf": "font/ttf",
  ".wasm": "application/wasm",
  ".webm": "video/webm",
  ".webp": "image/webp",
  ".woff": "font/woff",
  ".woff2": "font/woff2",
  ".xml": "application/xml",
  ".zip": "application/zip",
};

/** Headers of a file that a sandbox made: it is saved and never shown or run as a page of this server. */
export function fileHeaders(path: string): Record<string, string> {
  const name = basename(path) || "file";
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, "_");
  const encoded = encodeURIComponent(name.toWellFormed()).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16)}`,
  );
  return {
    "content-type": typeOf(name),
    "content-disposition": `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`,
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
  };
}

/**
 * Headers of a file that a sandbox made and that a browser shows. Its scripts run, but it has no origin: it can neither read nor script pages of this
 * server. `frameAncestors` are the sources of Content-Security-Policy that may show it in a frame.
 */
export function shownHeaders(path: string, frameAncestors: string): Record<string, string> {
  const type = typeOf(path);
  const frame = `frame-ancestors ${frameAncestors}`;
  // Viewers of PDF do not start without an origin, and need none: what the type says is what the file is taken for.
  const sandbox = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";
  return {
    "content-type": type,
    "x-content-type-options": "nosniff",
    "content-security-policy": type === "application/pdf" ? frame : `${sandbox}; ${frame}`,
    "cache-control": "private, no-cache",
    "referrer-policy": "no-referrer",
  };
}

function typeOf(path: string): string {
  return types[extname(path).toLowerCase()] ?? "application/octet-stream";
}
