import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * A cheap scripted model in its own process: it streams chat completions and reads only the last
 * mark of a request. A message `bench-<name>:<steps>;` gets that many calls of `think` (of
 * `terminal` if the name starts with `shell`), then an answer. It records when each request was
 * complete and when it was answered.
 */

/** Times of the requests of one name on a clock that all processes share, ms. */
export interface Exchange {
  arrived: number;
  answered: number;
}

const mark = /^bench-([\w-]+):(\d+);/;
let exchanges = new Map<string, Exchange[]>();
const now = () => Number(process.hrtime.bigint()) / 1e6;

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const arrived = now();
    const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
    const at = body.lastIndexOf("bench-");
    const [, name = "", steps = "0"] = mark.exec(body.toString("latin1", at, at + 100)) ?? [];
    const known = exchanges.get(name) ?? [];
    exchanges.set(name, known);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(known.length < Number(steps) ? call(name, known.length) : answer, () =>
      known.push({ arrived, answered: now() }),
    );
  });
});

const event = (choice: object, more: object = {}) =>
  `data: ${JSON.stringify({ id: `r${Math.random()}`, object: "chat.completion.chunk", created: 1, model: "bench", choices: [{ index: 0, ...choice }], ...more })}\n\n`;
const end = (reason: string) =>
  `${event({ delta: {}, finish_reason: reason }, { usage: { prompt_tokens: 1000, completion_tokens: 20, total_tokens: 1020 } })}data: [DONE]\n\n`;
const answer = event({ delta: { role: "assistant", content: "Done." } }) + end("stop");
const call = (name: string, step: number) => {
  const id = `call_${step}_${Math.random().toString(36).slice(2)}`;
  const [tool, given] = name.startsWith("shell")
    ? ["terminal", { command: `echo step ${step}`, security_risk: "LOW" }]
    : ["think", { thought: `Step ${step}: what is to be done next, and why.` }];
  const toolCall = {
    index: 0,
    id,
    type: "function",
    function: { name: tool, arguments: JSON.stringify(given) },
  };
  return event({ delta: { role: "assistant", content: null, tool_calls: [toolCall] } }) + end("tool_calls");
};

process.on("message", () => {
  process.send!([...exchanges]);
  exchanges = new Map();
});
process.on("disconnect", () => process.exit());
server.listen(0, "127.0.0.1", () =>
  process.send!({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }),
);
