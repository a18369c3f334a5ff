import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { connect as connectTls, createServer, type Server, type TLSSocket } from "node:tls";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ownAddress, policyOf, TestProxy, token } from "../../../test/support/egress.ts";
import { createCertificate } from "../tls/certificates.ts";

/** A server that sends the credential back in every place of its answer. */

const address = ownAddress();
const secret = "s3cret/of+the=server%&0123456789";
const rule = { name: "TOKEN", hosts: ["a.test"], fromEnv: "THE_SECRET", headers: ["x-special"] };
let proxy: TestProxy;
let server: Server;
/** The placeholder of the credential. */
let placeholder: string;
/** What the server writes; gets the request's head. */
let answer: (head: string, socket: TLSSocket) => void;
/** The heads of requests. */
const seen: string[] = [];

beforeAll(async () => {
  const key = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  const names = {
    issuer: "test",
    key,
    issuerKey: key,
    from: Date.now() - 60_000,
    until: Date.now() + 600_000,
  };
  const authority = createCertificate({ ...names, subject: "test", use: "authority" });
  const cert = createCertificate({ ...names, subject: "leaf", use: { host: "a.test" } });
  server = createServer({ key: key.export({ type: "pkcs8", format: "pem" }), cert }, (socket) => {
    socket.on("error", () => {});
    let text = "";
    socket.on("data", (bytes) => {
      text += bytes.toString("latin1");
      if (!text.includes("\r\n\r\n")) return;
      seen.push(text);
      answer(text, socket);
      text = "";
    });
  });
  server.listen(443, address);
  await once(server, "listening");
  proxy = await TestProxy.open({
    env: { THE_SECRET: secret },
    resolve: async () => [address],
    trusted: [authority],
  });
  await proxy.attach("one", {
    allow: [{ host: "a.test", ports: [443], methods: null }],
    credentials: [rule],
  });
  const policy = policyOf({ mode: "open", credentials: [rule] });
  placeholder = (await proxy.proxy.environment({ id: "one", token, policy })).TOKEN!;
});
afterAll(async () => {
  await proxy.close();
  server.close();
});

/** Sends a request through a tunnel; returns everything that comes back. */
async function ask(...headers: string[]): Promise<string> {
  const { socket } = await proxy.tunnel("one", "a.test:443");
  const tls = connectTls({ socket, servername: "a.test", rejectUnauthorized: false });
  tls.on("error", () => {});
  let got = "";
  tls.on("data", (bytes) => {
    got += bytes.toString("latin1");
  });
  tls.write(["GET /x HTTP/1.1", "Host: a.test", ...headers, "", ""].join("\r\n"));
  tls.setTimeout(1_000, () => tls.destroy());
  if (!tls.destroyed) await once(tls, "close");
  return got;
}

const bearer = () => `Authorization: Bearer ${placeholder}`;

/** Every form of the secret that a reader could undo, or a part of it that says much. */
function expectHidden(got: string): void {
  const base64 = [0, 1, 2].map((before) =>
    Buffer.from("x".repeat(before) + secret)
      .toString("base64")
      .slice(before + 2, -6),
  );
  const forms = [
    ...[secret, secret.slice(0, 12), secret.slice(-12), encodeURIComponent(secret).slice(0, 14)],
    ...[Buffer.from(secret).toString("hex"), secret.toUpperCase(), ...base64],
  ];
  for (const form of forms) expect(got).not.toContain(form);
}

const closing = "Connection: close";
const plain = (body: string, ...headers: string[]) =>
  ["HTTP/1.1 200 OK", closing, ...headers, `Content-Length: ${body.length}`, "", body].join("\r\n");
const framed = (head: string, body: Buffer) =>
  Buffer.concat([
    Buffer.from(`HTTP/1.1 200 OK\r\n${closing}\r\n${head}Content-Length: ${body.length}\r\n\r\n`),
    body,
  ]);

test.each<[string, string | Buffer]>([
  ["the reason phrase", `HTTP/1.1 200 ${secret}\r\n${closing}\r\nContent-Length: 2\r\n\r\nok`],
  [
    "a header's value",
    plain("ok", `X-Echo: Bearer ${secret}`, `ETag: "${secret}"`, `Set-Cookie: a=${secret}`),
  ],
  ["a header's name", plain("ok", `x-${Buffer.from(secret).toString("hex")}: 1`)],
  ["Location", plain("ok", `Location: https://b.test/?t=${encodeURIComponent(secret)}`)],
  ["base64 in a header", plain("ok", `X-Echo: Basic ${Buffer.from(`user:${secret}`).toString("base64")}`)],
  ["a body", plain(`you sent ${secret}`)],
  ["JSON", plain(JSON.stringify({ a: secret }).replaceAll("/", "\\/"))],
  ["URLs", plain(encodeURIComponent(secret))],
  ["hexadecimal", plain(Buffer.from(secret).toString("hex"))],
  [
    "base64",
    plain(["", "x", "yz"].map((before) => Buffer.from(before + secret).toString("base64")).join("\n")),
  ],
  ["upper case", plain(secret.toUpperCase())],
  ["gzip", framed("Content-Encoding: gzip\r\n", gzipSync(secret))],
  ["deflate", framed("Content-Encoding: deflate\r\n", deflateSync(secret))],
  ["brotli", framed("Content-Encoding: br\r\n", brotliCompressSync(secret))],
  ["zstd", framed("Content-Encoding: zstd\r\n", zstdCompressSync(secret))],
  [
    "trailers",
    `HTTP/1.1 200 OK\r\n${closing}\r\nTrailer: x-t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-t: ${secret}\r\n\r\n`,
  ],
  ["a 103 answer", `HTTP/1.1 103 ${secret}\r\nLink: <${secret}>\r\n\r\n${plain("ok")}`],
  [
    "a 206 answer",
    plain(secret, `Content-Range: bytes 0-1/${secret}`).replace("200 OK", "206 Partial Content"),
  ],
])("a secret that a server sends back in %s is masked", async (name, bytes) => {
  answer = (_head, socket) => void socket.end(bytes);
  const got = await ask(bearer(), closing);
  expect(got).toMatch(/^HTTP\/1\.1 20\d /);
  expectHidden(got);
  if (["gzip", "deflate", "brotli", "zstd"].includes(name)) expect(got).toContain("*".repeat(secret.length));
  expect(seen.at(-1)).toContain(`Bearer ${secret}`);
});

test("an answer in an unknown encoding is refused, and one that grows without end is cut", async () => {
  answer = (_head, socket) => void socket.end(framed("Content-Encoding: rot13\r\n", Buffer.from(secret)));
  expect(await ask(bearer(), closing)).toContain("502 The server compressed its answer in a way");
  const bomb = gzipSync(Buffer.alloc(40 * 2 ** 20));
  answer = (_head, socket) => void socket.end(framed("Content-Encoding: gzip\r\n", bomb));
  expect((await ask(bearer(), closing)).length).toBeLessThan(32 * 2 ** 20);
});

test("a secret in pieces is masked: ranges, chunks of one byte, a later answer without the secret", async () => {
  answer = (head, socket) => {
    const [, from, to] = /range: bytes=(\d+)-(\d+)/i.exec(head) ?? [];
    socket.end(plain(from === undefined ? secret : secret.slice(Number(from), Number(to) + 1)));
  };
  const pieces = [];
  for (let at = 0; at < secret.length; at += 4)
    pieces.push(await ask(bearer(), `Range: bytes=${at}-${at + 3}`, closing));
  expectHidden(pieces.map((one) => one.split("\r\n\r\n")[1]).join(""));
  expect(seen.at(-1)).not.toMatch(/range/i);
  expectHidden(await ask(closing));

  answer = (_head, socket) => {
    socket.write(`HTTP/1.1 200 OK\r\n${closing}\r\nTransfer-Encoding: chunked\r\n\r\n`);
    for (const character of `a ${secret} b`) socket.write(`1\r\n${character}\r\n`);
    socket.end("0\r\n\r\n");
  };
  const chunked = await ask(bearer(), closing);
  expectHidden(chunked.replaceAll(/\r\n[0-9a-f]+\r\n/g, ""));
});

const upgrade = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Key: x",
  "Sec-WebSocket-Version: 13",
];
const frame = (opcode: number, text: string, final = true) =>
  Buffer.concat([Buffer.from([opcode | (final ? 0x80 : 0), text.length]), Buffer.from(text)]);

test("a secret that comes back by Upgrade and in frames of a WebSocket is masked", async () => {
  answer = (_head, socket) => {
    socket.write(
      `HTTP/1.1 101 ${secret}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Echo: ${secret}\r\n\r\n`,
    );
    socket.write(frame(1, `one ${secret}`));
    socket.write(
      Buffer.concat([frame(1, "two ", false), frame(9, secret), frame(0, secret.slice(0, 9), false)]),
    );
    socket.write(frame(0, `${secret.slice(9)} end`));
    for (const byte of frame(2, `three ${secret}`)) socket.write(Buffer.of(byte));
    socket.end(frame(8, `xx${secret}`));
  };
  const got = await ask(bearer(), ...upgrade, "Sec-WebSocket-Extensions: permessage-deflate");
  expect(seen.at(-1)).not.toMatch(/extensions/i);
  expect(got).toMatch(/^HTTP\/1\.1 101 \*+\r\n/);
  expectHidden(got);
  const stars = "*".repeat(secret.length);
  expect(got).toContain(frame(1, `one ${stars}`).toString("latin1"));
  const shown = got.replaceAll(/[^\x20-\x7e]/g, "");
  expect(shown).toContain("two ");
  expect(shown).toContain(" end");
  expect(shown).toContain("three ");

  answer = (_head, socket) => void socket.end(plain(secret).replace("200 OK", `400 ${secret}`));
  const refused = await ask(bearer(), ...upgrade);
  expect(refused).toMatch(/^HTTP\/1\.1 400 \*+\r\n/);
  expectHidden(refused);
});

test("a secret is sent in headers for authentication, in those that it names, and in no other", async () => {
  answer = (_head, socket) => void socket.end(plain("ok"));
  for (const name of [
    "Authorization",
    "X-API-Key",
    "private-token",
    "X-Auth-Token",
    "api-key",
    "X-Special",
  ]) {
    expect(await ask(`${name}: ${placeholder}`, closing)).toContain("200 OK");
    expect(seen.at(-1)).toContain(`${name}: ${secret}`);
  }
  const before = seen.length;
  for (const name of [
    "User-Agent",
    "X-Forwarded-For",
    "Cookie",
    "Referer",
    "Accept",
    "Range",
    "Sec-WebSocket-Key",
  ])
    expect(await ask(`${name}: ${placeholder}`, closing)).toContain(
      `403 The secret TOKEN is sent in headers for authentication only: to send it in ${name}, name this header in the secret's headers.`,
    );
  expect(seen).toHaveLength(before);
});
