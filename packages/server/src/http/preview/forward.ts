import {
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from "node:http";
import { type Duplex, pipeline } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { type ResponseRules, responseHeaders } from "./response-headers.ts";

export interface Forwarding extends ResponseRules {
  headers: OutgoingHttpHeaders;
  /** How long the app may be silent before it answers, counted anew with each part of the request's body, ms. */
  answerMs: number;
}

/** Longest head of an app's answer, bytes. */
const maxHeadBytes = 64 * 1024;

/** Takes over when the app has accepted a change of protocol: its answer, its connection, and what has come on it already. */
export type OnUpgrade = (answer: IncomingMessage, app: Duplex, head: Buffer) => void;

/**
 * Sends a request over a connection of its own to the app, and the app's answer to the client, both as streams; interim answers (1xx) end here.
 * Resolves when the exchange is over or handed to `onUpgrade`. Rejects with PlatformError PreviewFailed or PreviewTimeout while the client has
 * got nothing yet.
 */
export function forward(
  request: IncomingMessage,
  response: ServerResponse,
  connection: Duplex,
  { headers, answerMs, ...rules }: Forwarding,
  onUpgrade?: OnUpgrade,
): Promise<void> {
  const { port, appPath } = rules.target;
  return new Promise((resolve, reject) => {
    const fail = (error: PlatformError) => {
      clearTimeout(silence);
      reject(error);
    };
    const broken = (cause: unknown) => fail(failure(cause, port));
    const silence = setTimeout(() => {
      fail(
        new PlatformError(
          "PreviewTimeout",
          `What listens on port ${port} has not answered within ${answerMs / 1000} s.`,
        ),
      );
    }, answerMs);
    request.on("data", () => silence.refresh());
    // With the answer ends the app's connection, be it that the client goes away or that it got an error.
    const gone = () => {
      clearTimeout(silence);
      connection.destroy();
      resolve();
    };
    response.once("close", gone);

    const options = {
      method: request.method,
      path: appPath,
      headers,
      setHost: false,
      maxHeaderSize: maxHeadBytes,
    };
    const toApp = httpRequest({ ...options, createConnection: () => connection });
    toApp.on("error", broken);
    toApp.on("upgrade", (answer, app, head) => {
      if (!onUpgrade) return broken(new Error("an upgrade that nobody has asked for"));
      clearTimeout(silence);
      response.off("close", gone);
      onUpgrade(answer, app, head);
      resolve();
    });
    toApp.on("response", (answer) => {
      try {
        // The client may not look for an answer before it has sent its whole body, which the app does not want.
        if (!request.complete) response.shouldKeepAlive = false;
        response.writeHead(answer.statusCode!, responseHeaders(answer, rules));
      } catch (error) {
        return broken(error);
      }
      clearTimeout(silence);
      // From here on only the answer itself can fail.
      toApp.off("error", broken).on("error", () => {});
      // What begins an endless stream must not wait for its first part.
      setImmediate(() => !response.writableEnded && response.flushHeaders());
      pipeline(answer, response, () => {
        connection.destroy();
        request.resume();
      });
    });
    request.pipe(toApp);
  });
}

function failure(cause: unknown, port: number): PlatformError {
  const code = (cause as NodeJS.ErrnoException).code ?? "";
  const what = code.startsWith("HPE_HEADER_OVERFLOW")
    ? "has answered with too large headers"
    : code.startsWith("HPE_") || code.startsWith("ERR_")
      ? "has not answered in proper HTTP"
      : "has closed the connection without an answer";
  return new PlatformError("PreviewFailed", `What listens on port ${port} ${what}.`, { cause });
}
