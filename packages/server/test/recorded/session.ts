import {
  type ModelRequestSeen,
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "../support/platform.ts";

/** A platform with a scripted model, on which recordings are made. */
export class Session {
  readonly #server: TestPlatform;
  readonly #models: ModelServer;
  replies: (Reply | Promise<Reply> | ((request: ModelRequestSeen) => Reply))[] = [];
  id = "";

  private constructor(server: TestPlatform, models: ModelServer) {
    this.#server = server;
    this.#models = models;
  }

  static async open(): Promise<Session> {
    let session: Session | undefined;
    const models = await startModelServer(async (request) => {
      // A summary is requested whenever there is a reason for one.
      if (request.tools.length === 0) return reply.text("The user wants work done; some of it is done.");
      const next = await session?.replies.shift();
      return typeof next === "function" ? next(request) : (next ?? reply.text("The script has ended."));
    });
    const server = await startTestPlatform({ outboundPrivate: ["127.0.0.0/8"] });
    session = new Session(server, models);
    return session;
  }

  /** Changes settings of V1, the model included. */
  async settings(agent: Json = {}, conversation: Json = {}): Promise<void> {
    const llm = { model: "openai/scripted", api_key: "sk-scripted-key", base_url: this.#models.url };
    await this.#post("/api/v1/settings", {
      agent_settings_diff: { llm, ...agent },
      conversation_settings_diff: conversation,
    });
  }

  async start(text: string): Promise<void> {
    this.id = (await startConversation((...call) => this.#server.call(...call), text)).id;
  }

  say(text: string): Promise<Json> {
    return this.#post(`/api/conversations/${this.id}/events`, {
      role: "user",
      content: [{ type: "text", text }],
      run: true,
    });
  }

  /** A command of the agent-server surface, such as `run`, `pause` or `condense`. */
  command(name: string, body?: Json): Promise<Json> {
    return this.#post(`/api/conversations/${this.id}/${name}`, body);
  }

  status(wanted: string): Promise<unknown> {
    return until(async () => {
      const { body } = await this.#server.call("GET", `/api/conversations/${this.id}`);
      return body.execution_status === wanted || undefined;
    });
  }

  /** Waits until the model was asked so often in all. */
  asked(count: number): Promise<unknown> {
    return until(() => this.#models.requests.length >= count || undefined);
  }

  event(fits: (event: Json) => boolean): Promise<Json> {
    return until(async () => {
      const { body } = await this.#server.call(
        "GET",
        `/api/v1/conversation/${this.id}/events/search?limit=100`,
      );
      return body.items.find(fits);
    });
  }

  async recording(): Promise<string> {
    const response = await fetch(`${this.#server.url}/api/v1/app-conversations/${this.id}/recording`, {
      headers: { "X-Session-API-Key": this.#server.key },
    });
    return response.text();
  }

  async close(): Promise<void> {
    await this.#server.stop();
    await this.#models.close();
  }

  async #post(path: string, body?: Json): Promise<Json> {
    const answer = await this.#server.call("POST", path, body);
    if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }
}
