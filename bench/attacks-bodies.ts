import { type Attack, loops, type Target } from "./attacks-target.ts";

const mebibyte = 2 ** 20;

/** Posts the same body again and again over some connections. */
function posts(lanes: number, path: (target: Target) => string, body: () => string | Buffer): Attack["run"] {
  return async (target, signal) => {
    const bytes = Buffer.from(body());
    const headers = { "X-Session-API-Key": target.key, "Content-Type": "application/json" };
    await loops(lanes, signal, async () => {
      const answer = await fetch(target.url + path(target), { method: "POST", headers, body: bytes, signal });
      await answer.arrayBuffer();
    });
  };
}

const conversations = () => "/api/v1/app-conversations";
/** Refused after it was parsed, so that nothing is started. */
const message = (text: string) =>
  JSON.stringify({ pr_number: "none", initial_message: { content: [{ type: "text", text }] } });

const values = (count: number) =>
  JSON.stringify({
    pr_number: "none",
    ...Object.fromEntries(
      Array.from({ length: count }, (_, index) => [`key-${index}-${"x".repeat(40)}`, index]),
    ),
  });

/** Attacks with bodies, all with a key. */
export const bodyAttacks: readonly Attack[] = [
  {
    name: "JSON of 31 MB: one text",
    needsPlatform: true,
    run: posts(2, conversations, () => message("x".repeat(31 * mebibyte))),
  },
  {
    name: "JSON of 15 MB: one text",
    needsPlatform: true,
    run: posts(2, conversations, () => message("x".repeat(15 * mebibyte))),
  },
  {
    name: "JSON of 15 MB: one text of escapes",
    needsPlatform: true,
    run: posts(2, conversations, () => message("\n".repeat(7.5 * mebibyte))),
  },
  {
    name: "JSON of 1 MB: 9,000 values",
    needsPlatform: true,
    run: posts(4, conversations, () => values(9_000)),
  },
  {
    name: "JSON of 5 MB: 90,000 values",
    needsPlatform: true,
    run: posts(4, conversations, () => values(90_000)),
  },
  {
    name: "JSON of 8 MB: a million values",
    needsPlatform: true,
    run: posts(4, conversations, () => `[${"[1],".repeat(2 * mebibyte)}1]`),
  },
  {
    name: "JSON of 8 MB: a million brackets",
    needsPlatform: true,
    run: posts(4, conversations, () => "[".repeat(8 * mebibyte)),
  },
  {
    name: "settings of 5 MB",
    needsPlatform: true,
    run: posts(
      4,
      () => "/api/settings",
      () => JSON.stringify({ llm_model: "x".repeat(5 * mebibyte) }),
    ),
  },
  {
    name: "bash commands, 50 at once",
    needsPlatform: true,
    run: posts(
      50,
      ({ sandboxId }) => `/agent/${sandboxId}/api/bash/start_bash_command`,
      () => JSON.stringify({ command: "true" }),
    ),
  },
];
