import type { Server } from "node:http";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { agentServerUrl } from "@sandpiper/sandbox/service/agent-server-url";
import type { ExposedUrl } from "@sandpiper/wire";
import type { Config } from "../../config/config.ts";
import { previewLink } from "../preview/links.ts";
import { publicUrl } from "./urls.ts";

/** Ports on which clients look for what an agent serves (app-server.md section 4). */
export const workerPorts = { WORKER_1: 8011, WORKER_2: 8012 } as const;

const halfDayMs = 12 * 60 * 60 * 1000;

/**
 * Where clients reach a running sandbox: its agent-server surface, below the server's own address and opened by the session key,
 * and previews of the worker ports, which a browser opens without a key. The links work for 12 to 24 hours and change twice a day only, so that
 * a client that reads the record again and again does not load its page anew.
 */
export function exposedUrls(row: SandboxRow, config: Config, server: Server): ExposedUrl[] {
  const url = publicUrl(config, server);
  const { port, protocol } = new URL(url);
  const urlPort = port === "" ? (protocol === "https:" ? 443 : 80) : Number(port);
  const expires = (Math.floor(Date.now() / halfDayMs) + 2) * halfDayMs;
  const workers = Object.entries(workerPorts).map(([name, port]) => ({
    name,
    url: previewLink(row, port, url, expires).url,
    port,
  }));
  return [{ name: "AGENT_SERVER", url: agentServerUrl(url, row.id), port: urlPort }, ...workers];
}
