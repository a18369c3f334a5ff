import { basename, extname } from "node:path";

/** Types that clients use; every other file is sent as bytes. */
const mediaTypes: Record<string, string> = {
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

/**
 * Headers for a file from a sandbox: browsers save it and never show or run it as a page of this
 * server.
 */
export function getDownloadHeaders(path: string): Record<string, string> {
  const name = basename(path) || "file";
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, "_");
  const encoded = encodeURIComponent(name.toWellFormed()).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16)}`,
  );
  return {
    "content-type": getMediaType(name),
    "content-disposition": `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`,
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
  };
}

/**
 * Headers for a file from a sandbox that a browser shows. Its scripts run without an origin, so
 * they cannot read or script pages of this server. `frameAncestors` are the CSP sources that may
 * frame it.
 */
export function getInlineHeaders(path: string, frameAncestors: string): Record<string, string> {
  const type = getMediaType(path);
  const frame = `frame-ancestors ${frameAncestors}`;
  // PDF viewers do not start without an origin. They need no sandbox, because `nosniff` fixes the
  // type.
  const sandbox = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";
  return {
    "content-type": type,
    "x-content-type-options": "nosniff",
    "content-security-policy": type === "application/pdf" ? frame : `${sandbox}; ${frame}`,
    "cache-control": "private, no-cache",
    "referrer-policy": "no-referrer",
  };
}

function getMediaType(path: string): string {
  return mediaTypes[extname(path).toLowerCase()] ?? "application/octet-stream";
}
