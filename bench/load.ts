import { connect } from "node:net";

/**
 * Requests per second that a server answers over some keep-alive connections, one request at a time on each.
 * Reads the answers by their content-length only, so that the client costs little.
 */
export async function requestsPerSecond(url: URL, headers: Record<string, string>, options: { connections: number; ms: number }) {
  const lines = Object.entries({ host: url.host, ...headers }).map(([name, value]) => `${name}: ${value}`);
  const request = Buffer.from(`GET ${url.pathname} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
  let answered = 0;
  let running = true;
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(Number(url.port), url.hostname, () => socket.write(request));
      socket.setNoDelay(true);
      socket.on("error", reject);
      socket.on("close", () => resolve());
      let buffered: Buffer = Buffer.alloc(0);
      socket.on("data", (chunk: Buffer) => {
        buffered = buffered.length > 0 ? Buffer.concat([buffered, chunk]) : chunk;
        const end = buffered.indexOf("\r\n\r\n");
        if (end < 0) return;
        const head = buffered.toString("latin1", 0, end);
        if (!head.startsWith("HTTP/1.1 200")) return socket.destroy(new Error(head.split("\r\n", 1)[0]));
        const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
        if (buffered.length < end + 4 + length) return;
        buffered = buffered.subarray(end + 4 + length);
        answered++;
        if (running) socket.write(request);
        else socket.end();
      });
    });
  const start = performance.now();
  const connections = Array.from({ length: options.connections }, one);
  await new Promise((resolve) => setTimeout(resolve, options.ms));
  const rate = (answered * 1000) / (performance.now() - start);
  running = false;
  await Promise.all(connections);
  return rate;
}
