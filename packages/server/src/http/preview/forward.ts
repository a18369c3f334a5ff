import {
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from "node:http";
import { type Duplex, pipeline, type Transform } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { appendText, isPlainPage } from "./path-notice.ts";
import { buildResponseHeaders, type ResponseRules } from "./response-headers.ts";

export interface ForwardOptions extends ResponseRules {
  headers: OutgoingHttpHeaders;
  /**
   * How long the app may be silent before its response, restarted by each chunk of the body, ms.
   */
  answerMs: number;
  /** HTML for the end of a page. */
  notice?: string | undefined;
}

/** Maximum head of an app's response, bytes. */
const maxHeadBytes = 64 * 1024;

/** Takes over after a protocol upgrade, with the app's response, connection and first bytes. */
export type OnUpgrade = (answer: IncomingMessage, app: Duplex, head: Buffer) => void;

/**
 * Streams a request to the app and its response to the client; interim responses (1xx) are dropped.
 * Resolves when the exchange ends or `onUpgrade` takes over. Rejects with PlatformError
 * PreviewFailed or PreviewTimeout before the client has received anything.
 */
export function forwardPreview(
  request: IncomingMessage,
  response: ServerResponse,
  connection: Duplex,
  { headers, answerMs, notice, ...rules }: ForwardOptions,
  onUpgrade?: OnUpgrade,
): Promise<void> {
  const { port, appPath } = rules.target;
  return new Promise((resolve, reject) => {
    const fail = (error: PlatformError) => {
      clearTimeout(silence);
      reject(error);
    };
    const broken = (cause: unknown) => fail(toFailure(cause, port));
    const silence = setTimeout(() => {
      fail(new PlatformError("PreviewSilent", { port, seconds: answerMs / 1000 }));
    }, answerMs);
    request.on("data", () => silence.refresh());
    // The app's connection ends with the response, also if the client leaves or gets an error.
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
      if (!onUpgrade) return broken(new Error("an unrequested upgrade"));
      clearTimeout(silence);
      response.off("close", gone);
      onUpgrade(answer, app, head);
      resolve();
    });
    toApp.on("response", (answer) => {
      let ending: Transform | undefined;
      try {
        // The client may send its whole body before it reads the response, and the app does not
        // read it.
        if (!request.complete) response.shouldKeepAlive = false;
        const head = buildResponseHeaders(answer, rules);
        if (notice !== undefined && isPlainPage(answer)) {
          delete head["content-length"];
          ending = appendText(notice);
        }
        response.writeHead(answer.statusCode!, head);
      } catch (error) {
        return broken(error);
      }
      clearTimeout(silence);
      // From here on only the response can fail.
      toApp.off("error", broken).on("error", () => {});
      // Send the head of an endless stream before its first chunk.
      setImmediate(() => !response.writableEnded && response.flushHeaders());
      pipeline([answer, ...(ending ? [ending] : []), response], () => {
        connection.destroy();
        request.resume();
      });
    });
    request.pipe(toApp);
  });
}

function toFailure(cause: unknown, port: number): PlatformError {
  const code = (cause as NodeJS.ErrnoException).code ?? "";
  const what = code.startsWith("HPE_HEADER_OVERFLOW")
    ? "answered with too large headers"
    : code.startsWith("HPE_") || code.startsWith("ERR_")
      ? "did not answer in valid HTTP"
      : "closed the connection without an answer";
  return new PlatformError("PreviewProtocolFailed", { port, what }, { cause });
}
