import { Exec } from "@kubernetes/client-node";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Cluster } from "./cluster.ts";

/** Numbers of the streams of an exec connection. */
const streams = { stdin: 0, stdout: 1, stderr: 2, status: 3 } as const;

/** Timeout for a new connection, ms. */
const connectTimeoutMs = 15_000;

export interface ExecStream {
  /** Writes to the program's standard input. */
  send(bytes: Buffer): void;
  /** Number of sent bytes that wait for the network. */
  readonly unsent: number;
  close(): void;
}

export interface ExecListener {
  onOutput(bytes: Buffer): void;
  /** Called once when the program or the connection has ended. */
  onEnd(reason: string): void;
}

/**
 * Runs a program in a pod over one WebSocket connection to the API server. Rejects when the
 * connection is refused, with the API server's HTTP status in the message.
 */
export async function openExecStream(
  cluster: Cluster,
  pod: string,
  { container, argv }: { container: string; argv: string[] },
  listener: ExecListener,
): Promise<ExecStream> {
  const query = new URLSearchParams({ container, stdin: "true", stdout: "true", stderr: "true" });
  for (const word of argv) query.append("command", word);
  const path = `/api/v1/namespaces/${cluster.namespace}/pods/${pod}/exec?${query}`;
  let errors = "";
  let hasEnded = false;
  const end = (reason: string) => {
    if (hasEnded) return;
    hasEnded = true;
    listener.onEnd(errors.trim() || reason);
  };
  const onMessage = (stream: number, bytes: Buffer): boolean => {
    if (stream === streams.stdout) listener.onOutput(bytes);
    else if (stream === streams.stderr) errors = (errors + bytes.toString("utf8")).slice(-2_000);
    else if (stream === streams.status) end(readStatus(bytes));
    return true;
  };
  const socket = await withTimeout(new Exec(cluster.config).handler.connect(path, null, onMessage), (late) =>
    late.close(),
  );
  socket.binaryType = "nodebuffer";
  socket.onclose = () => end("the connection was closed");
  socket.onerror = () => socket.close();
  return {
    send: (bytes) => {
      if (socket.readyState !== socket.OPEN) return;
      const message = Buffer.allocUnsafe(bytes.length + 1);
      message[0] = streams.stdin;
      bytes.copy(message, 1);
      socket.send(message);
    },
    get unsent() {
      return socket.bufferedAmount;
    },
    close: () => socket.close(),
  };
}

/** Returns the message of the `Status` that ends a connection. */
function readStatus(bytes: Buffer): string {
  try {
    const { message } = JSON.parse(bytes.toString("utf8")) as { message?: unknown };
    return typeof message === "string" ? message : "the program has ended";
  } catch {
    return "the program has ended";
  }
}

async function withTimeout<T>(work: Promise<T>, drop: (late: T) => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let isLate = false;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      isLate = true;
      reject(new Error(`no answer within ${connectTimeoutMs / 1_000} s`));
    }, connectTimeoutMs);
  });
  work.then(
    (late) => isLate && drop(late),
    () => {},
  );
  try {
    return await Promise.race([work, timeout]);
  } catch (error) {
    // The library rejects with an event.
    const { message, error: inner } = error as { message?: string; error?: Error };
    throw new Error(inner?.message ?? message ?? "the connection failed", { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** Maximum size of the output of a program that a pod runs for the driver, bytes. */
const maxOutputBytes = 4 * 2 ** 20;

/** Runs a short program of the driver in a pod and returns its output. Throws SandboxFailed. */
export async function runInPod(
  cluster: Cluster,
  pod: string,
  program: { container: string; argv: string[] },
): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    return await new Promise<string>((resolve, reject) => {
      const listener: ExecListener = {
        onOutput: (bytes) => {
          length += bytes.length;
          if (length <= maxOutputBytes) chunks.push(Buffer.from(bytes));
        },
        onEnd: (reason) => {
          if (chunks.length > 0) resolve(Buffer.concat(chunks).toString("utf8"));
          else reject(new Error(reason));
        },
      };
      openExecStream(cluster, pod, program, listener).catch(reject);
    });
  } catch (cause) {
    throw new PlatformError("PodNotReached", { reason: errorText(cause) }, { cause });
  }
}
