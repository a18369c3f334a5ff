import { connect } from "node:net";

export interface Load {
  connections: number;
  ms: number;
}

/** Requests per second, and how long each took, ms. */
export interface LoadResult {
  rate: number;
  latencies: number[];
}

/** Requests per second that a server answers; see `load`. */
export async function requestsPerSecond(
  url: URL,
  headers: Record<string, string>,
  options: Load,
): Promise<number> {
  return (await load(url, headers, options)).rate;
}

/**
 * Loads a server over some keep-alive connections, one request at a time on each.
 * Reads the answers by their content-length only, so that the client costs little.
 */
export async function load(url: URL, headers: Record<string, string>, options: Load): Promise<LoadResult> {
  const lines = Object.entries({ host: url.host, ...headers }).map(([name, value]) => `${name}: ${value}`);
  const request = Buffer.from(`GET ${url.pathname}${url.search} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
  const latencies: number[] = [];
  let running = true;
  const one = () =>
    new Promise<void>((resolve, reject) => {
      let sentAt = 0;
      const send = () => {
        sentAt = performance.now();
        socket.write(request);
      };
      const socket = connect(Number(url.port), url.hostname, send);
      socket.setNoDelay(true);
      socket.on("error", reject);
      socket.on("close", () => resolve());
      let head: Buffer = Buffer.alloc(0);
      // Remaining bytes of the response after its head.
      let missing: number | undefined;
      socket.on("data", (chunk: Buffer) => {
        if (missing === undefined) {
          head = head.length > 0 ? Buffer.concat([head, chunk]) : chunk;
          const end = head.indexOf("\r\n\r\n");
          if (end < 0) return;
          const text = head.toString("latin1", 0, end);
          if (!text.startsWith("HTTP/1.1 200")) return socket.destroy(new Error(text.split("\r\n", 1)[0]));
          missing = end + 4 + Number(/content-length: (\d+)/i.exec(text)?.[1]) - head.length;
        } else missing -= chunk.length;
        if (missing > 0) return;
        head = Buffer.alloc(0);
        missing = undefined;
        latencies.push(performance.now() - sentAt);
        if (running) send();
        else socket.end();
      });
    });
  const start = performance.now();
  const connections = Promise.all(Array.from({ length: options.connections }, one));
  // A connection that fails ends the measurement.
  await Promise.race([connections, new Promise((resolve) => setTimeout(resolve, options.ms))]);
  const rate = (latencies.length * 1000) / (performance.now() - start);
  running = false;
  await connections;
  return { rate, latencies };
}
