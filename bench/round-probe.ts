import { createServer } from "node:net";
import { isMainThread } from "node:worker_threads";

/** How often the processor time is read, ms; a round that lasts longer has one reading. */
const readMs = 1;

/**
 * Loaded before a server (`--import`), measures its event loop: the processor time that the main
 * thread takes between two timers, which is that of the longest single round. Unlike the time of
 * the clock it does not depend on what else the machine does. Writes the longest time since the
 * last look, ms, to whoever connects to the socket in `ROUND_PROBE`.
 */
const path = process.env.ROUND_PROBE;
if (isMainThread && path !== undefined) {
  // Programs that the server starts are not measured.
  delete process.env.ROUND_PROBE;
  delete process.env.NODE_OPTIONS;
  let longest = 0;
  let last = 0;
  const read = () => {
    const { user, system } = process.threadCpuUsage();
    longest = Math.max(longest, user + system - last);
    last = user + system;
  };
  setInterval(read, readMs).unref();
  const server = createServer((socket) => {
    read();
    socket.end(`${longest / 1_000}`);
    longest = 0;
  });
  server.listen(path).unref();
}
