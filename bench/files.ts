import { request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { figures, type Row, single } from "./measure.ts";
import { residentMemory } from "./process.ts";
import { type BenchServer, startBenchServer } from "./server-process.ts";

const size = 2 ** 30;
const mega = 2 ** 20;
const passes = 2;

/**
 * A file of 1 GB through a separate server, and the server's response times during the transfer.
 */
export async function benchFiles(): Promise<Row[]> {
  const server = await startBenchServer();
  try {
    const sandbox = await server.sandbox();
    const file = `${server.url}/api/v1/sandboxes/${sandbox}/files?path=large`;
    // The first pass loads code and fills caches.
    await upload(server, file, 16 * mega);
    await download(server, file);
    const idle = await quietHealth(server);
    const before = residentMemory(server.pid);
    const watch = watchServer(server);
    for (let pass = 0; pass < passes; pass++) {
      await upload(server, file, size);
      if ((await download(server, file)) !== size) throw new Error("the file that came back is not as long");
    }
    const { memory, health } = await watch();
    const used = Math.max(0, memory - before) / mega;
    const busy = figures(health);
    return [
      {
        name: "server memory above idle while 1 GB goes up and down",
        unit: "MB",
        figures: single(used),
        target: "< 50 MB",
        met: used < 50,
      },
      {
        name: "GET /health meanwhile",
        unit: "ms",
        figures: busy,
        floor: { name: "GET /health of an idle server", figures: idle },
        target: "p99 < 100 ms",
        met: busy.p99 < 100,
      },
    ];
  } finally {
    await server.end();
  }
}

function upload({ headers }: BenchServer, url: string, bytes: number): Promise<void> {
  const chunk = Buffer.alloc(mega, "0123456789abcdef");
  return new Promise((resolve, reject) => {
    const put = request(
      url,
      { method: "PUT", headers: { ...headers, "content-length": bytes } },
      (response) => {
        response.resume();
        if (response.statusCode === 200) response.on("end", () => resolve());
        else reject(new Error(`the upload was answered ${response.statusCode}`));
      },
    );
    put.on("error", reject);
    let left = bytes / mega;
    const write = () => {
      while (left > 0) {
        left--;
        if (!put.write(chunk)) return void put.once("drain", write);
      }
      put.end();
    };
    write();
  });
}

/** Returns the number of bytes. */
function download({ headers }: BenchServer, url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const get = request(url, { headers }, (response) => {
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
      });
      response.on("end", () => resolve(bytes));
    });
    get.on("error", reject);
    get.end();
  });
}

async function quietHealth(server: BenchServer) {
  const watch = watchServer(server);
  await delay(2_000);
  return figures((await watch()).health);
}

/** Records the server's peak memory (bytes) and response times (ms) until the call. */
function watchServer({ url, pid }: BenchServer): () => Promise<{ memory: number; health: number[] }> {
  const health: number[] = [];
  let memory = 0;
  let running = true;
  const look = async () => {
    while (running) {
      memory = Math.max(memory, residentMemory(pid));
      const began = performance.now();
      await (await fetch(`${url}/health`)).text();
      health.push(performance.now() - began);
      await delay(10);
    }
  };
  const looking = look();
  return async () => {
    running = false;
    await looking;
    return { memory, health };
  };
}
