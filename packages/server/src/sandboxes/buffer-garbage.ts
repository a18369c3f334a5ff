import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** How much passes before its buffers are freed, bytes. */
const interval = 16 * 2 ** 20;

let passed = 0;
let collect: ((options: { type: "minor" }) => void) | undefined;

/**
 * To be called for what a large stream carried. Each chunk has a buffer of its own, and V8 lets 64 MB and more of them lie, because
 * their small objects hardly fill its young generation. A collection of that generation alone takes about a millisecond.
 */
export function bufferPassed(bytes: number): void {
  passed += bytes;
  if (passed < interval) return;
  passed = 0;
  collect ??= exposedCollector();
  collect({ type: "minor" });
}

function exposedCollector(): (options: { type: "minor" }) => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc");
}
