import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import WebSocket from "ws";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { terminal } from "../support/script.ts";

/** `/sockets/session/{id}` (agent-server-1.58.md section 6.4): one cursor over many connections. */

const turns = 12;
let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

beforeAll(async () => {
  models = await startModelServer(({ messages }) => {
    const calls = messages.filter(({ role }) => role === "assistant").length;
    if (calls >= turns) return reply.text("This is the end of all the work. ".repeat(20));
    return reply.toolCalls([terminal(`echo ${calls}`)], { text: `Step ${calls} begins here. `.repeat(20) });
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

/** Reads up to `limit` frames behind the cursor and drops the connection without a farewell. */
async function readFrames(id: string, cursor: number, limit: number, isLast: (frame: Json) => boolean) {
  const address = `${agent.url.replace(/^http/, "ws")}/sockets/session/${id}`;
  const socket = new WebSocket(`${address}?session_api_key=${agent.key}&after_seq=${cursor}`);
  const frames: Json[] = [];
  await new Promise<void>((resolve, reject) => {
    socket.on("error", reject);
    socket.on("message", (data) => {
      if (frames.length >= limit) return;
      frames.push(JSON.parse(String(data)));
      if (frames.length === limit || isLast(frames.at(-1)!)) resolve();
    });
  });
  socket
    .removeAllListeners("error")
    .on("error", () => {})
    .terminate();
  return frames;
}

/** A small generator of random numbers, so that a failure can be repeated. */
function makeRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

/** The closing state, or the status that a client gets that connects after the end. */
const isEnd = ({ type, event }: Json) =>
  type === "transient" &&
  (event.key === "full_state"
    ? event.value.execution_status
    : event.key === "execution_status" && event.value) === "finished";

test.each([1, 2, 3])(
  "connections that are lost at random points miss no event and get none twice (%i)",
  async (seed) => {
    const random = makeRandom(seed);
    const { agent: given } = sdkRequest(models.url);
    const request = sdkRequest(models.url, { agent: { ...given, llm: { ...given.llm, stream: true } } });
    const { id } = (await agent.call("POST", "/api/conversations", request)).body;
    const said = { role: "user", content: [{ type: "text", text: "Work" }], run: true };
    expect((await agent.call("POST", `/api/conversations/${id}/events`, said)).status).toBe(200);

    const durable: Json[] = [];
    let cursor = -1;
    let deltas = 0;
    for (let ended = false; !ended; ) {
      const limit = 1 + Math.floor(random() * 8);
      const [sync, ...frames] = await readFrames(id, cursor, limit, isEnd);
      expect(sync).toMatchObject({ type: "sync", from_seq: cursor + 1 });
      for (const frame of frames) {
        ended ||= isEnd(frame);
        if (frame.event.kind === "StreamingDeltaEvent") deltas += 1;
        if (frame.type !== "durable") continue;
        expect(frame.seq).toBeGreaterThan(cursor);
        cursor = frame.seq;
        durable.push(frame.event);
      }
    }
    // The closing state may come while older events are still to be sent.
    const { body } = await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`);
    const rest = body.items.length - durable.length;
    if (rest > 0) {
      let left = rest;
      const isLast = ({ type }: Json) => type === "durable" && --left === 0;
      for (const { type, event } of await readFrames(id, cursor, 1_000, isLast))
        if (type === "durable") durable.push(event);
    }
    expect(durable.map((event) => event.id)).toEqual(body.items.map((event: Json) => event.id));
    expect(new Set(durable.map((event) => event.id)).size).toBe(2 * turns + 3);
    expect(deltas).toBeGreaterThan(0);
  },
);
