import type { Readable } from "node:stream";
import { Transform } from "node:stream";
import { NodeHttpHandler, type NodeHttpHandlerOptions } from "@smithy/node-http-handler";

/**
 * Maximum size of an answer that is no object, bytes. The client keeps such an answer in memory.
 */
const maxAnswerBytes = 4 * 2 ** 20;

/** Sends requests, and limits answers that are not the bytes of an object. */
export class BoundedHandler extends NodeHttpHandler {
  constructor(options: NodeHttpHandlerOptions) {
    super(options);
  }

  override async handle(
    ...[request, options]: Parameters<NodeHttpHandler["handle"]>
  ): ReturnType<NodeHttpHandler["handle"]> {
    const answer = await super.handle(request, options);
    const { response } = answer;
    const isObject =
      request.method === "GET" &&
      request.query["x-id"] === "GetObject" &&
      [200, 206].includes(response.statusCode);
    if (!isObject && response.body) response.body = limit(response.body as Readable);
    return answer;
  }
}

function limit(body: Readable): Readable {
  let size = 0;
  const limited = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length;
      if (size <= maxAnswerBytes) done(null, chunk);
      else done(Object.assign(new Error("the answer is too long"), { code: "AnswerTooLong" }));
    },
  });
  limited.once("close", () => body.destroy());
  body.once("error", (error) => limited.destroy(error));
  // A connection that breaks off emits no error.
  body.once("close", () => {
    if (!body.readableEnded) limited.destroy(Object.assign(new Error("cut off"), { code: "ECONNRESET" }));
  });
  return body.pipe(limited);
}
