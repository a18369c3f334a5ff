import { isMainThread } from "node:worker_threads";

/** Preloaded into a server: each SIGUSR2 sets the clock of its main thread back by an hour. */
let offset = 0;
const RealDate = Date;
const { now } = Date;

class JumpingDate extends RealDate {
  constructor(...values: unknown[]) {
    super(...((values.length > 0 ? values : [now() + offset]) as [number]));
  }
  static override now = () => now() + offset;
}

if (isMainThread) {
  globalThis.Date = JumpingDate as DateConstructor;
  process.on("SIGUSR2", () => {
    offset -= 3_600_000;
  });
}
