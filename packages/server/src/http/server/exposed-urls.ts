import type { Server } from "node:http";
import type { ExposedUrl } from "@sandpiper/wire";
import type { Config } from "../../config/config.ts";
import type { SandboxGrant } from "../../users/sandbox-grants.ts";
import { makePreviewLinks } from "../preview/links.ts";
import { getPublicUrl } from "./urls.ts";

/** Ports where clients look for servers that the agent starts (app-server.md section 4). */
export const workerPorts = { WORKER_1: 8011, WORKER_2: 8012 } as const;

const halfDayMs = 12 * 60 * 60 * 1000;

/**
 * The URLs of a running sandbox: its agent-server surface, opened by the session key, and previews
 * of the worker ports, which a browser opens without a key. The agent server's URL is the server's
 * own, because the Python SDK's cloud workspace refuses a URL with a path; the session key selects
 * the sandbox. Links work for 12 to 24 hours and change only twice a day, so that polling clients
 * do not reload the page.
 */
export function getExposedUrls(grant: SandboxGrant, config: Config, server: Server): ExposedUrl[] {
  const url = getPublicUrl(config, server);
  const { port, protocol } = new URL(url);
  const urlPort = port === "" ? (protocol === "https:" ? 443 : 80) : Number(port);
  const expires = (Math.floor(Date.now() / halfDayMs) + 2) * halfDayMs;
  const workers = Object.entries(workerPorts).map(([name, port]) => ({
    name,
    url: makePreviewLinks(grant, port, url, expires).url,
    port,
  }));
  return [{ name: "AGENT_SERVER", url, port: urlPort }, ...workers];
}
