import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { openGate } from "../../../test/support/gate.ts";
import {
  type S3Server,
  s3Program,
  startS3Server,
  writeCredentials,
} from "../../../test/support/s3-server.ts";
import { until } from "../../../test/support/until.ts";
import type { BlobStore } from "../blob-store.ts";
import { openS3BlobStore } from "./s3-store.ts";

const mebibyte = 2 ** 20;
const partBytes = 5 * mebibyte;
const fast = { connectMs: 1_000, idleMs: 1_000, callMs: 3_000, tries: 2, partBytes: () => partBytes };
/** Limits with which the client waits for a server that comes back within seconds. */
const patient = { ...fast, callMs: 60_000, tries: 8 };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function open(place: S3Server["place"], limits = fast): BlobStore {
  const store = openS3BlobStore(place, limits);
  closing.push(() => store.close());
  return store;
}

async function start(options?: { folder?: string }): Promise<S3Server> {
  const server = await startS3Server(options);
  closing.push(() => server.close());
  return server;
}

const unavailable = (sentence: RegExp) => ({
  code: "BlobsUnavailable",
  message: expect.stringMatching(sentence),
});

describe.skipIf(s3Program === undefined)("with a real S3 server", () => {
  test("an upload fails when its server dies, and no part of the blob is ever listed", async () => {
    const server = await start();
    const store = open(server.place);
    const source = async function* () {
      yield randomBytes(3 * partBytes);
      await server.kill();
      yield randomBytes(3 * partBytes);
    };
    await expect(store.put(source())).rejects.toMatchObject(unavailable(/does not answer \(ECONNREFUSED\)/));
    await server.restart();
    expect(await store.list()).toEqual({ blobs: [], next: undefined });
    expect(await store.removeUnfinished(3_600_000)).toBe(0);
    expect(await store.removeUnfinished(0)).toBe(1);
    expect(await store.removeUnfinished(0)).toBe(0);
    const blob = await store.put(Readable.from([randomBytes(100)]));
    expect(await store.has(blob)).toBe(true);
  });

  test("an upload and a read go on when their server dies and comes back", async () => {
    const server = await start();
    const store = open(server.place, patient);
    const bytes = randomBytes(8 * partBytes);
    const dieAndReturn = async () => {
      await server.kill();
      void sleep(300).then(() => server.restart());
    };
    const source = async function* () {
      for (let part = 0; part < 8; part++) {
        if (part === 4) await dieAndReturn();
        yield bytes.subarray(part * partBytes, (part + 1) * partBytes);
      }
    };
    const blob = await store.put(source());
    let seen = 0;
    const read: Buffer[] = [];
    for await (const chunk of (await store.get(blob)) as AsyncIterable<Buffer>) {
      if (seen < 2 * partBytes && seen + chunk.length >= 2 * partBytes) await dieAndReturn();
      seen += chunk.length;
      read.push(chunk);
    }
    expect(Buffer.concat(read).equals(bytes)).toBe(true);
  });

  test("a read fails within its limits when the server stays away, hangs or resets connections", async () => {
    const server = await start();
    const gate = await openGate(server.place.endpoint!);
    closing.push(() => gate.close());
    const store = open({ ...server.place, endpoint: gate.url });
    const blob = await store.put(Readable.from([randomBytes(8 * mebibyte)]));
    for (const fault of [gate.close, gate.hang, gate.reset]) {
      await gate.open();
      const stream = await store.get(blob);
      await fault();
      await expect(buffer(stream)).rejects.toMatchObject(unavailable(/does not answer/));
      await expect(store.has(blob)).rejects.toMatchObject(unavailable(/does not answer/));
    }
    await gate.open();
    expect((await buffer(await store.get(blob))).length).toBe(8 * mebibyte);
  });

  test("a full bucket refuses a blob, and takes it when there is room", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sandpiper-full-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m", "sandpiper-test", folder]);
    closing.push(() => {
      execFileSync("umount", ["-l", folder]);
      rmSync(folder, { recursive: true, force: true });
    });
    const store = open((await start({ folder })).place);
    const small = await store.put(Readable.from([randomBytes(8 * mebibyte)]));
    const full = { code: "StorageFull", message: expect.stringMatching(/is full: make room/) };
    const parts = Array.from({ length: 5 }, () => randomBytes(partBytes));
    await expect(store.put(Readable.from(parts))).rejects.toMatchObject(full);
    await store.removeUnfinished(0);
    await store.remove(small.digest);
    await store.put(Readable.from([randomBytes(8 * mebibyte)]));
  });

  test("errors tell of refused or missing credentials and a missing bucket, without the credentials", async () => {
    const { place, access } = await start();
    const folder = mkdtempSync(join(tmpdir(), "sandpiper-credentials-"));
    closing.push(() => rmSync(folder, { recursive: true, force: true }));
    const given = (name: string, change: Partial<typeof access>) =>
      writeCredentials(join(folder, name), { ...access, ...change });
    const check = async (change: Partial<S3Server["place"]>) =>
      open({ ...place, ...change })
        .check()
        .catch((error: unknown) => error as Error);
    const wrong = await check({ credentialsFile: given("wrong", { secret: "wrong-secret" }) });
    expect(wrong).toMatchObject(unavailable(/refuses the credentials \(SignatureDoesNotMatch\)/));
    const unknown = await check({ credentialsFile: given("unknown", { id: "nobody" }) });
    expect(unknown).toMatchObject(unavailable(/refuses the credentials/));
    const missing = await check({ credentialsFile: join(folder, "missing") });
    expect(missing).toMatchObject(unavailable(/no usable credentials .*SANDPIPER_BLOBS_CREDENTIALS/));
    expect(await check({ bucket: "no-such-bucket" })).toMatchObject(unavailable(/does not exist: create it/));
    for (const error of [wrong, unknown, missing])
      expect((error as Error).message).not.toMatch(new RegExp(`${access.secret}|wrong-secret`));
  });
});

describe("with a hostile server", () => {
  /** Serves every request with one function. */
  async function hostile(serve: (request: IncomingMessage, response: ServerResponse) => void) {
    const server: Server = createServer((request, response) => {
      request.resume();
      response.on("error", () => {});
      serve(request, response);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const folder = mkdtempSync(join(tmpdir(), "sandpiper-hostile-"));
    closing.push(() => {
      server.closeAllConnections();
      server.close();
      rmSync(folder, { recursive: true, force: true });
    });
    const { port } = server.address() as { port: number };
    return open({
      kind: "s3",
      bucket: "b",
      prefix: "",
      endpoint: `http://127.0.0.1:${port}`,
      region: "us-east-1",
      credentialsFile: writeCredentials(join(folder, "file"), { id: "a", secret: "s" }),
    });
  }

  const blob = { digest: "a".repeat(64), size: 1_000 };
  const pour = (response: ServerResponse, text = "x".repeat(65_536)) => {
    let poured = 0;
    const more = () => {
      while (!response.destroyed && response.write(text)) poured += text.length;
    };
    response.on("drain", more);
    more();
    return () => poured;
  };

  test("an endless blob is ended as soon as it is longer than it may be", async () => {
    let poured = () => 0;
    const store = await hostile((_request, response) => {
      response.writeHead(200);
      poured = pour(response);
    });
    await expect(buffer(await store.get(blob))).rejects.toMatchObject({ code: "BlobLost" });
    expect(poured()).toBeLessThan(16 * mebibyte);
  });

  test.each([200, 400, 500])("an endless list or error of status %i is ended after 4 MiB", async (status) => {
    const connections = new Set<ServerResponse>();
    const poured: (() => number)[] = [];
    const store = await hostile((_request, response) => {
      connections.add(response);
      response.once("close", () => connections.delete(response));
      response.writeHead(status, { "content-type": "application/xml" });
      response.write("<ListBucketResult>");
      poured.push(pour(response));
    });
    await expect(store.list()).rejects.toMatchObject({ code: "BlobsUnavailable" });
    await until(() => connections.size === 0 || undefined);
    for (const count of poured) expect(count()).toBeLessThan(24 * mebibyte);
  });

  test.each([301, 302, 307, 308])("a redirection with status %i is not followed", async (status) => {
    let requests = 0;
    const other = createServer((_request, response) => {
      requests++;
      response.end();
    }).listen(0, "127.0.0.1");
    await once(other, "listening");
    closing.push(() => other.close());
    const { port } = other.address() as { port: number };
    const store = await hostile((_request, response) =>
      response.writeHead(status, { location: `http://127.0.0.1:${port}/` }).end(),
    );
    await expect(store.get(blob)).rejects.toMatchObject(unavailable(/redirects .*, which is not followed/));
    await expect(store.put(Readable.from([randomBytes(10)]))).rejects.toMatchObject(unavailable(/redirects/));
    expect(requests).toBe(0);
  });

  test("a read fails when the server never answers, and when it answers byte by byte", async () => {
    const silent = await hostile(() => {});
    await expect(silent.list()).rejects.toMatchObject(unavailable(/does not answer/));
    const slow = await hostile((_request, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write("<"), 100);
      response.once("close", () => clearInterval(timer));
    });
    await expect(slow.list()).rejects.toMatchObject(unavailable(/does not answer/));
    await expect(buffer(await slow.get(blob))).rejects.toMatchObject(unavailable(/does not answer/));
  });

  test("an answer that is no list, and error names with control characters, have no effect", async () => {
    const nonsense = await hostile((_request, response) => {
      response
        .writeHead(200)
        .end(
          "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>../../etc</Key></Contents></ListBucketResult>",
        );
    });
    expect(await nonsense.list()).toEqual({ blobs: [], next: undefined });
    const rude = await hostile((_request, response) => {
      response.writeHead(400).end("<Error><Code>\u001b[31mroot\u001b[0m</Code></Error>");
    });
    await expect(rude.list()).rejects.toMatchObject(unavailable(/answered with the error status 400\.$/));
  });

  test("a server that ignores the range of a resumed read does not mix up the bytes", async () => {
    const bytes = randomBytes(1_000);
    const store = await hostile((_request, response) => {
      response.writeHead(200, { "content-length": "1000" });
      response.write(bytes.subarray(0, 500), () => response.destroy());
    });
    const digest = "b".repeat(64);
    await expect(buffer(await store.get({ digest, size: 1_000 }))).rejects.toMatchObject(
      unavailable(/RangeIgnored/),
    );
  });
});
