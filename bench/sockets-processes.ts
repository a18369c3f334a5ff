import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fillWithConversations } from "@sandpiper/server/test/support/store";
import { LightSocket } from "./sockets-client.ts";
import type { Done, Order } from "./sockets-drive.ts";

const key = "sp_bench-key-0123456789abcdefghijklmnopqrstuvwx";
const headers = { "x-session-api-key": key };

/** A separate server that appends events on orders. */
export interface EventServer {
  url: string;
  pid: number;
  /** Sends events; resolves when the last one is stored. */
  send(order: Order): Promise<Done>;
  /** Opens a socket to a conversation by index, counted from 0; wraps around. */
  open(
    conversation: number,
    onFrame: (payload: Buffer) => void,
    options?: { query?: string; key?: boolean },
  ): LightSocket;
  descriptors(): number;
  end(): Promise<void>;
}

/** A platform with hibernated conversations, and a bare `ws` server with as many paths. */
export async function startEventServers(
  conversations: number,
): Promise<{ platform: EventServer; bare: EventServer }> {
  const dir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const ids = await fillWithConversations(dir, conversations);
  const env = {
    SANDPIPER_DATA: dir,
    SANDPIPER_API_KEY: key,
    SANDPIPER_PORT: "0",
    SANDPIPER_LOG_LEVEL: "error",
  };
  const platform = await start("sockets-server", ids, { ...env, SANDPIPER_MAX_REQUESTS: "1000000" });
  const bare = await start("sockets-floor", ids, {});
  const end = async () => {
    await platform.end();
    rmSync(dir, { recursive: true, force: true });
  };
  return { platform: { ...platform, end }, bare };
}

async function start(program: string, ids: string[], env: Record<string, string>): Promise<EventServer> {
  const file = fileURLToPath(new URL(`./${program}.ts`, import.meta.url));
  const child: ChildProcess = fork(file, ids, { env: { ...process.env, ...env } });
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  child.once("exit", (code) => failed.reject(new Error(`${program} ended with ${code}`)));
  const answer = async <Answer>() =>
    ((await Promise.race([once(child, "message"), failed.promise])) as [Answer])[0];
  const { url } = await answer<{ url: string }>();
  return {
    ...{ url, pid: child.pid! },
    send(order) {
      child.send(order);
      return answer<Done>();
    },
    open(conversation, onFrame, { query = "", key = true } = {}) {
      const path = `/sockets/events/${ids[conversation % ids.length]}${query}`;
      return new LightSocket(new URL(url + path), key ? headers : {}, onFrame);
    },
    descriptors: () => readdirSync(`/proc/${child.pid}/fd`).length,
    async end() {
      const ended = once(child, "exit");
      child.disconnect();
      await ended;
    },
  };
}
