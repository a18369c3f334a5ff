import { parentPort } from "node:worker_threads";
import { InvalidInput } from "./invalid-input.ts";
import { parseJson } from "./json.ts";
import type { Answer } from "./json-reader-client.ts";

/** A thread that parses the JSON texts that it gets as bytes, in order. */
parentPort!.on("message", (bytes: Uint8Array) => parentPort!.postMessage(parse(bytes)));

function parse(bytes: Uint8Array): Answer {
  try {
    return { value: parseJson(new TextDecoder().decode(bytes)) };
  } catch (error) {
    if (error instanceof InvalidInput) return { issues: error.issues };
    throw error;
  }
}
