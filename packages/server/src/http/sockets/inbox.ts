import { PlatformError } from "@sandpiper/core/errors";
import { stripUnknownFields } from "@sandpiper/core/strip-unknown-fields";
import { newId, SendMessageRequest } from "@sandpiper/wire";
import type { FastifyBaseLogger } from "fastify";
import { Compile } from "typebox/compile";
import type { ConversationCommands } from "../../conversations/api.ts";
import { parseContent } from "../../conversations/log/messages.ts";
import { InvalidInput } from "../server/invalid-input.ts";
import { parseJson } from "../server/json.ts";
import { toIssues } from "../server/validation.ts";
import { parseAuthKey } from "./authenticate.ts";

const messages = Compile(SendMessageRequest);

/** Maximum unprocessed frames of a client. */
const maxWaiting = 100;

export interface InboxDeps {
  target: Pick<ConversationCommands, "send">;
  conversationId: string;
  /** Whether the client may still send; asked before each frame. */
  isAllowed: () => Promise<boolean>;
  /** Sends a problem with a frame to the client. */
  fail: (code: string, detail: string) => void;
  logger: FastifyBaseLogger;
}

/**
 * Processes a client's frames in order: user messages, which also start the agent (agent-server.md
 * section 6.1). Problems go to `fail`, and the socket stays open. Repeated auth frames are ignored.
 */
export class Inbox {
  readonly #send: (message: SendMessageRequest) => Promise<void>;
  readonly #isAllowed: InboxDeps["isAllowed"];
  readonly #fail: InboxDeps["fail"];
  readonly #logger: FastifyBaseLogger;
  #tail: Promise<void> = Promise.resolve();
  #waiting = 0;

  constructor({ target, conversationId, isAllowed, fail, logger }: InboxDeps) {
    this.#send = ({ content, sender }) =>
      target.send(conversationId, parseContent(content), { run: true, sender: sender ?? undefined });
    this.#isAllowed = isAllowed;
    this.#fail = fail;
    this.#logger = logger;
  }

  receive(text: string): void {
    if (this.#waiting >= maxWaiting)
      return this.#fail("TooManyFrames", "Too many messages wait; this one was dropped");
    this.#waiting++;
    this.#tail = this.#tail.then(async () => {
      try {
        if (!(await this.#isAllowed())) return;
        const message = parseMessage(text);
        if (message) await this.#send(message);
      } catch (error) {
        this.#fail(...this.#toFrameError(error));
      } finally {
        this.#waiting--;
      }
    });
  }

  #toFrameError(error: unknown): [code: string, detail: string] {
    if (error instanceof InvalidInput) return ["InvalidFrame", error.message];
    if (error instanceof PlatformError && error.status !== 500) return [error.code, error.message];
    const errorId = newId();
    this.#logger.error({ err: error, errorId }, "a socket frame failed");
    return ["InternalServerError", `Internal Server Error (${errorId})`];
  }
}

/** The message of a frame; undefined for an auth frame. Throws InvalidInput. */
function parseMessage(text: string): SendMessageRequest | undefined {
  const frame = parseJson(text);
  if (parseAuthKey(frame) !== undefined) return undefined;
  if (!messages.Check(frame)) throw new InvalidInput(toIssues(messages.Errors(frame), "frame"));
  return stripUnknownFields(messages.Type(), frame) as SendMessageRequest;
}
