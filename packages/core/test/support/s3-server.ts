import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { S3Place } from "../../src/blobs/place.ts";

/** The program of the S3 server; undefined where it was not built. */
export const s3Program = findProgram();

function findProgram(): string | undefined {
  const script = fileURLToPath(new URL("../../../../scripts/versitygw", import.meta.url));
  try {
    return execFileSync(script, ["--find"], { encoding: "utf8" }).trim();
  } catch {
    console.log(
      "NOT RUN: tests against an S3 server, because scripts/versitygw has built none (it needs Go).",
    );
    return undefined;
  }
}

/** A real S3 server in a process of its own, with one bucket. */
export interface S3Server {
  place: S3Place;
  /** Folder with the objects of the bucket. */
  objects: string;
  access: { id: string; secret: string };
  /** Ends it at once. */
  kill(): Promise<void>;
  /** Stops it without closing its connections, until `thaw`. */
  freeze(): void;
  thaw(): void;
  /** Starts it again at the same address, with the same objects. */
  restart(): Promise<void>;
  /** Ends it and removes its files. */
  close(): Promise<void>;
}

const bucket = "blobs-of-tests";

/** Starts versitygw on loopback; `folder` keeps the objects, by default a temporary one. */
export async function startS3Server({ folder }: { folder?: string } = {}): Promise<S3Server> {
  const base = mkdtempSync(join(tmpdir(), "sandpiper-s3-"));
  const data = folder ?? join(base, "data");
  mkdirSync(join(data, bucket), { recursive: true });
  const access = { id: "test-access", secret: randomUUID() };
  const credentialsFile = writeCredentials(join(base, "credentials"), access);
  const port = await findFreePort();
  let child: ChildProcess | undefined;
  const kill = async () => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  };
  const restart = async () => {
    const env = { PATH: process.env.PATH, ROOT_ACCESS_KEY: access.id, ROOT_SECRET_KEY: access.secret };
    const words = ["--quiet", "--port", `127.0.0.1:${port}`, "posix", data];
    child = spawn(s3Program!, words, { env, stdio: "ignore" });
    for (;;) {
      if (child.exitCode !== null) throw new Error(`The S3 server ended with ${child.exitCode}.`);
      if (await accepts(port)) return;
      await sleep(20);
    }
  };
  await restart();
  return {
    place: {
      kind: "s3",
      bucket,
      prefix: "team/",
      endpoint: `http://127.0.0.1:${port}`,
      region: "us-east-1",
      credentialsFile,
    },
    objects: join(data, bucket, "team"),
    access,
    kill,
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
    restart,
    async close() {
      await kill();
      rmSync(base, { recursive: true, force: true });
    },
  };
}

/** Writes credentials as Amazon's tools do. Returns the path. */
export function writeCredentials(path: string, { id, secret }: S3Server["access"]): string {
  writeFileSync(path, `[default]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`, {
    mode: 0o600,
  });
  return path;
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}
