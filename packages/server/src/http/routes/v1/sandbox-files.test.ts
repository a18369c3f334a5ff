import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { statSync } from "node:fs";
import { connect } from "node:net";
import { stub } from "@sandpiper/core/test/support/stub";
import type { ExecRequest, SandboxProcess } from "@sandpiper/sandbox/driver";
import type { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import { openTestDriver, run, testSpec } from "@sandpiper/sandbox/test/support/oci";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../../test/support/test-server.ts";

let server: TestServer;
let driver: OciDriver;
let end: () => Promise<void>;
let id: string;
let sessionKey: string;
// Enough memory to fill /dev/shm (256 MB), which counts as memory.
const spec = { ...testSpec, limits: { ...testSpec.limits, memoryBytes: 2 ** 30 } };
const inside = async (command: string) => (await run(driver, "files", command)).out;

beforeAll(async () => {
  [server, { driver, end }] = await Promise.all([startServer(), openTestDriver()]);
  await driver.start({ id: "files", spec });
  ({ id, sessionKey } = server.addSandbox());
  server.sandboxes.running = async () =>
    stub({
      id,
      incarnation: "1",
      spec,
      shell: driver.shell,
      exec: (command: Parameters<OciDriver["exec"]>[1]) => driver.exec("files", command),
    });
});
afterAll(async () => {
  await server.close();
  await end();
});

const at = (path: string, rest = "") =>
  `/api/v1/sandboxes/${id}/files${rest}${rest.includes("?") ? "&" : "?"}path=${encodeURIComponent(path)}`;
const send = (method: string, url: string, init: RequestInit & { duplex?: "half" } = {}): Promise<Response> =>
  fetch(server.url + url, {
    method,
    ...init,
    headers: { "x-session-api-key": key, ...init.headers },
    signal: AbortSignal.timeout(50_000),
  });
const put = (path: string, body: string | Buffer<ArrayBuffer> | ReadableStream) =>
  send("PUT", at(path), { body, duplex: "half" });
const detail = async (answer: Response) => ({
  status: answer.status,
  text: JSON.stringify(await answer.json()),
});

test("a file larger than the body limit can be uploaded and downloaded, with its size, type and name", async () => {
  const content = randomBytes(9 * 2 ** 20);
  expect(content.length).toBeGreaterThan(server.config.bodyLimit);
  expect(await read(put('/tmp/ä "x".png', content))).toEqual({ status: 200, body: { success: true } });
  for (const method of ["GET", "HEAD"]) {
    const answer = await send(method, at('/tmp/ä "x".png'));
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-length")).toBe(String(content.length));
    expect(answer.headers.get("content-type")).toBe("image/png");
    expect(answer.headers.get("content-disposition")).toBe(
      `attachment; filename="_ _x_.png"; filename*=UTF-8''%C3%A4%20%22x%22.png`,
    );
    // The kernel's clock, which test:elsewhere does not change.
    const now = statSync("/proc/self").mtimeMs;
    expect(Date.parse(answer.headers.get("last-modified")!)).toBeGreaterThan(now - 60_000);
    const body = Buffer.from(await answer.arrayBuffer());
    expect(method === "HEAD" ? body.length === 0 : body.equals(content)).toBe(true);
  }
});

test("transfers uploads of unknown length, empty files and files of the kernel", async () => {
  const chunks = [randomBytes(100_000), randomBytes(7)];
  const body = new ReadableStream({
    pull(controller) {
      const chunk = chunks.shift();
      if (chunk) controller.enqueue(chunk);
      else controller.close();
    },
  });
  expect((await put("made/folders/chunked", body)).status).toBe(200);
  expect(await inside("wc -c <made/folders/chunked; ls -A made/folders")).toBe("100007\nchunked\n");
  expect((await put("/tmp/empty", "")).status).toBe(200);
  const empty = await send("GET", at("/tmp/empty"));
  expect([empty.headers.get("content-length"), await empty.text()]).toEqual(["0", ""]);
  const made = await send("GET", at("/proc/self/status"));
  expect(made.headers.get("content-length")).toBeNull();
  expect(await made.text()).toMatch(/^Name:\s+cat/);
});

test.each([true, false])(
  "leaves the old file and nothing else when an upload is cut (length announced: %s)",
  async (announced) => {
    await inside("rm -rf /tmp/cut; mkdir /tmp/cut; echo old >/tmp/cut/file");
    const { port } = new URL(server.url);
    const socket = connect(Number(port), "127.0.0.1");
    const length = announced ? "content-length: 1000000" : "transfer-encoding: chunked";
    socket.write(
      `PUT ${at("/tmp/cut/file")} HTTP/1.1\r\nhost: x\r\nx-session-api-key: ${key}\r\n${length}\r\n\r\n`,
    );
    socket.write(announced ? "x".repeat(70_000) : `${(70_000).toString(16)}\r\n${"x".repeat(70_000)}\r\n`);
    await expect.poll(() => inside("ls -A /tmp/cut | wc -l")).toBe("2\n");
    socket.destroy();
    await once(socket, "close");
    await expect.poll(() => inside("ls -A /tmp/cut; cat /tmp/cut/file")).toBe("file\nold\n");
  },
);

test("an aborted download ends the command in the sandbox", async () => {
  await inside("truncate -s 3G /tmp/holes");
  const abort = new AbortController();
  const answer = await fetch(server.url + at("/tmp/holes"), {
    headers: { "x-session-api-key": key },
    signal: abort.signal,
  });
  expect(answer.headers.get("content-length")).toBe(String(3 * 2 ** 30));
  await answer.body!.getReader().read();
  expect(await inside("pgrep -c '^cat$'")).toBe("1\n");
  abort.abort();
  await expect.poll(() => inside("pgrep -c '^cat$'")).toBe("0\n");
});

test.each(["files", "archive"])(
  "a download aborted before its first byte (%s) ends the command in the sandbox",
  async (what) => {
    await inside("mkdir -p /tmp/left && truncate -s 3G /tmp/left/holes");
    const { running } = server.sandboxes;
    const [asked, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const started = Promise.withResolvers<SandboxProcess>();
    server.sandboxes.running = async () => {
      asked.resolve();
      await gone.promise;
      const sandbox = await running.call(server.sandboxes);
      const exec = (command: ExecRequest) => {
        const process = sandbox.exec(command);
        started.resolve(process);
        return process;
      };
      return { ...sandbox, exec };
    };
    try {
      const arrived = once(server.app.server, "connection");
      const client = connect(server.port, "127.0.0.1");
      const path = what === "files" ? "files?path=/tmp/left/holes" : "archive?path=/tmp/left";
      client.write(
        `GET /api/v1/sandboxes/${id}/${path} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\n\r\n`,
      );
      const [accepted] = await arrived;
      await asked.promise;
      client.destroy();
      await once(accepted, "close");
      gone.resolve();
      await (await started.promise).exit;
    } finally {
      server.sandboxes.running = running;
    }
  },
);

test("explains invalid paths", async () => {
  await inside(
    "mkdir -p /tmp/bad/full; echo x >/tmp/bad/closed; chmod 0 /tmp/bad/closed; mkfifo /tmp/bad/fifo; ln -s nowhere /tmp/bad/link",
  );
  const cases: [method: string, path: string, status: number, text: RegExp][] = [
    ["GET", "/tmp/none", 404, /no \/tmp\/none/],
    ["GET", "/tmp/bad/link", 404, /no \/tmp/],
    ["GET", "/tmp/bad", 422, /is a directory/],
    ["GET", "/tmp/bad/fifo", 422, /neither/],
    ["GET", "/tmp/bad/closed", 403, /Permission denied/],
    ["GET", "/root/x", 403, /Permission denied/],
    ["GET", "/tmp/a\0b", 422, /NUL/],
    ["GET", `/tmp/${"x".repeat(256)}`, 422, /too long/],
    ["GET", "", 422, /path/],
    ["PUT", "/tmp/bad", 422, /is a directory/],
    ["PUT", "/etc/passwd", 403, /denied|Read-only/i],
    ["PUT", "/usr/x", 403, /denied|Read-only/i],
    ["PUT", "/tmp/bad/closed/below", 422, /directory|File exists/i],
    ["PUT", "/tmp/a\0b", 422, /NUL/],
    ["DELETE", "/tmp/none", 404, /no \/tmp\/none/],
    ["DELETE", "/usr/bin/env", 403, /denied|Read-only/i],
    ["DELETE", "/tmp/bad", 422, /not empty/i],
    ["LIST", "/tmp/none", 404, /no \/tmp\/none/],
    ["LIST", "/tmp/bad/closed", 422, /./],
    ["LIST", "/root", 403, /Permission denied/],
  ];
  for (const [method, path, status, text] of cases) {
    const url = method === "LIST" ? at(path, "/list") : at(path);
    const answer = await detail(
      await send(method === "LIST" ? "GET" : method, url, method === "PUT" ? { body: "new" } : {}),
    );
    expect(answer, `${method} ${path}`).toEqual({ status, text: expect.stringMatching(text) });
  }
  expect((await send("HEAD", at("/tmp/none"))).status).toBe(404);
});

test("reports a full sandbox disk, and keeps the old file", async () => {
  await inside("echo old >/dev/shm/file; head -c 254M /dev/zero >/dev/shm/rest");
  const answer = await detail(await put("/dev/shm/file", Buffer.alloc(5 * 2 ** 20)));
  expect(answer).toEqual({ status: 422, text: expect.stringMatching(/No space left/) });
  // The rest of the body does not block the connection's next request.
  expect((await put("/tmp/next", "x")).status).toBe(200);
  expect(await inside("ls -A /dev/shm; cat /dev/shm/file")).toBe("file\nrest\nold\n");
});

test("lists a folder page by page, with odd names and links as links", async () => {
  await inside(`mkdir -p /tmp/l/d; cd /tmp/l; head -c 10 /dev/zero >b; ln -s /etc/passwd link; touch 'new
line' -- '-x' '\${x} 1 2 .y' ä; chmod 640 b; mkfifo p`);
  const names: string[] = [];
  let next: string | null = null;
  do {
    const { body } = await read(send("GET", at("/tmp/l", `/list?limit=3${next ? `&page_id=${next}` : ""}`)));
    expect(body.items.length).toBeLessThanOrEqual(3);
    names.push(...body.items.map(({ name, kind }: { name: string; kind: string }) => `${name}:${kind}`));
    next = body.next_page_id;
  } while (next !== null);
  expect(names).toEqual([
    "${x} 1 2 .y:file",
    "-x:file",
    "b:file",
    "d:directory",
    "link:link",
    "new\nline:file",
    "p:other",
    "ä:file",
  ]);
  const { body } = await read(send("GET", at("/tmp/l", "/list?limit=1")));
  expect(body.items[0]).toMatchObject({ size: 0, mode: "0644" });
  await inside("mkdir -p /tmp/many; cd /tmp/many; seq -w 1 5000 | xargs touch");
  const many = await read(
    send("GET", at("/tmp/many", `/list?page_id=${Buffer.from("4898").toString("base64url")}`)),
  );
  expect([many.body.items.length, many.body.items[0].name, many.body.next_page_id === null]).toEqual([
    100,
    "4899",
    false,
  ]);
});

test("removes files, links and, on request, folders", async () => {
  await inside("mkdir -p /tmp/rm/d/e; touch /tmp/rm/f /tmp/rm/d/e/g; ln -s /tmp/rm/d /tmp/rm/l");
  for (const path of ["/tmp/rm/f", "/tmp/rm/l"]) expect((await send("DELETE", at(path))).status).toBe(200);
  expect(await inside("ls /tmp/rm /tmp/rm/d")).toBe("/tmp/rm:\nd\n\n/tmp/rm/d:\ne\n");
  expect((await send("DELETE", at("/tmp/rm", "?recursive=true"))).status).toBe(200);
  expect(await inside("ls -d /tmp/rm")).toBe("");
});

test("links and dots lead only to the sandbox's own files", async () => {
  await inside("ln -sfn / /tmp/out; ln -sfn /proc/1/root /tmp/init; ln -sfn ../../../../../../.. /tmp/up");
  for (const prefix of ["/tmp/out", "/tmp/up", "/tmp/init", "/../../../..", "../../../.."]) {
    expect([403, 404]).toContain((await send("GET", at(`${prefix}${process.cwd()}/package.json`))).status);
    const passwd = await send("GET", at(`${prefix}/etc/passwd`));
    if (passwd.status === 200) expect(await passwd.text()).toContain("agent:x:1000");
    else expect([403, 404]).toContain(passwd.status);
  }
});

test("are accessible only to the sandbox's user and its own session key", async () => {
  const other = server.addSandbox({ userId: "stranger" });
  const second = server.addSandbox();
  const status = async (key: string) =>
    (await send("GET", at("/etc/hosts"), { headers: { "x-session-api-key": key } })).status;
  expect(await status(sessionKey)).toBe(200);
  expect(await status(second.sessionKey)).toBe(404);
  expect(await status(other.sessionKey)).toBe(404);
  expect(await status("wrong")).toBe(401);
  expect(await status(strangerKey)).toBe(404);
  for (const [method, rest] of [
    ["PUT", ""],
    ["DELETE", ""],
    ["HEAD", ""],
    ["GET", "/list"],
  ] as const) {
    const answer = await send(method, at("/tmp/x", rest), {
      headers: { "x-session-api-key": second.sessionKey },
    });
    expect(answer.status).toBe(404);
  }
});

test("describes the routes", async () => {
  const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
    paths: Record<string, object>;
  };
  expect(Object.keys(paths["/api/v1/sandboxes/{sandbox_id}/files"]!).sort()).toEqual([
    "delete",
    "get",
    "head",
    "put",
  ]);
  expect(paths["/api/v1/sandboxes/{sandbox_id}/files/list"]).toBeDefined();
});
