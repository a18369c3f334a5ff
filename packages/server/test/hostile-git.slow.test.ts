import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ownAddress, portOf, serve, testAuthority } from "@sandpiper/sandbox/test/support/egress";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, until } from "./support/platform.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

/** Starts on repositories of a git service that attacks its clients. */

const host = ownAddress();
const id = "1".repeat(40);
/** Lines as git sends them: a length in hexadecimal digits, then the text. */
const line = (text: string | Buffer) => {
  const body = Buffer.from(text);
  return Buffer.concat([Buffer.from((body.length + 4).toString(16).padStart(4, "0")), body]);
};
const end = Buffer.from("0000");
const advertisement = Buffer.concat([
  line("# service=git-upload-pack\n"),
  end,
  line(`${id} HEAD\0side-band-64k symref=HEAD:refs/heads/main shallow\n`),
  line(`${id} refs/heads/main\n`),
  end,
]);
const pack = (first: Buffer) => line(Buffer.concat([Buffer.from([1]), first]));
/** Two thousand million objects are announced, and what follows is none. */
const header = Buffer.from([...Buffer.from("PACK"), 0, 0, 0, 2, 0x7f, 0xff, 0xff, 0xff]);

let inside: Server;
let insideRequests = 0;
let service: Server;
let dataDir: string;
let server: ServerProcess;

const redirect = (location: string) => (_: IncomingMessage, response: ServerResponse) =>
  void response.writeHead(301, { location }).end();

let posts = 0;
/** Sends bytes for a pack until the client leaves. */
function pourPack(request: IncomingMessage, response: ServerResponse): void {
  if (request.method === "GET") return void response.end(advertisement);
  request.resume();
  posts += 1;
  response.write(Buffer.concat([line(`shallow ${id}\n`), end]));
  // The first request asks only where the history ends.
  if (posts === 1) return void response.end();
  response.write(Buffer.concat([line("NAK\n"), pack(header)]));
  const pour = () => {
    while (!response.destroyed && response.write(pack(Buffer.alloc(60_000, 0xff))));
  };
  response.on("drain", pour);
  pour();
}

const attacks: Record<string, (request: IncomingMessage, response: ServerResponse) => void> = {
  inside: (request, response) =>
    redirect(`http://localhost.example:${portOf(inside)}${request.url}`)(request, response),
  loopback: (request, response) =>
    redirect(`http://127.0.0.1:${portOf(inside)}${request.url}`)(request, response),
  metadata: redirect("http://169.254.169.254/info/refs?service=git-upload-pack"),
  file: redirect("file:///etc/passwd"),
  ext: redirect("ext::sh -c id"),
  circle: (request, response) => redirect(request.url!)(request, response),
  pack: pourPack,
};

beforeAll(async () => {
  inside = createServer((_, response) => {
    insideRequests += 1;
    response.end("inside");
  }).listen(0, "127.0.0.1");
  service = await serve(
    (request, response) => {
      response.on("error", () => {});
      const user = JSON.stringify({ id: 1, login: "ann", avatar_url: "" });
      if (request.url!.startsWith("/api/")) return void response.end(user);
      const type = request.method === "GET" ? "advertisement" : "result";
      response.setHeader("content-type", `application/x-git-upload-pack-${type}`);
      attacks[request.url!.split("/")[2]!.replace(/\.git$/, "")]!(request, response);
    },
    { address: host, port: 443, host },
  );
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-hostile-git-"));
  const authority = join(dataDir, "authority.pem");
  await writeFile(authority, testAuthority);
  const network = { allow: [host], private: [`${host}/32`] };
  await writeFile(join(dataDir, "specs.json"), JSON.stringify({ specs: [{ id: "host", network }] }));
  server = await startServerProcess(dataDir, {
    NODE_EXTRA_CA_CERTS: authority,
    SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
  });
  const settings = {
    llm_model: "openai/scripted",
    llm_api_key: "sk-test",
    llm_base_url: "http://127.0.0.1:1",
  };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
  const provider_tokens = { github: { token: "ghp_planted-token-of-the-user-0123456789", host } };
  expect((await server.call("POST", "/api/v1/secrets/git-providers", { provider_tokens })).status).toBe(200);
});

afterAll(async () => {
  await server?.end("SIGTERM");
  service?.closeAllConnections();
  service?.close();
  inside?.close();
  await rm(dataDir, { recursive: true, force: true });
});

test.each([
  [
    "inside",
    /cannot be cloned: The network policy of this sandbox allows no connection to localhost\.example/,
  ],
  ["loopback", /could not be cloned: /],
  [
    "metadata",
    /cannot be cloned: The network policy of this sandbox allows no connection to 169\.254\.169\.254/,
  ],
  ["file", /could not be cloned: /],
  ["ext", /could not be cloned: /],
  ["circle", /could not be cloned: .*redirects/],
  ["pack", /could not be cloned: .*index-pack/],
])("a git service that attacks ends the start with one sentence: %s", async (name, sentence) => {
  const { body } = await server.call("POST", "/api/v1/app-conversations", {
    selected_repository: `evil/${name}`,
    git_provider: "github",
    initial_message: { content: [{ type: "text", text: "Work" }] },
  });
  const task = await until<Json>(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations/start-tasks?ids=${body.id}`)).body;
    return ["READY", "ERROR"].includes(found.status) ? found : undefined;
  });
  expect(task).toMatchObject({ status: "ERROR", detail: expect.stringMatching(sentence) });
  expect(task.detail).toMatch(/^evil\/\w+ (?:could not|cannot) be cloned: [\x20-\x7e]{1,600}$/);
  expect(insideRequests).toBe(0);
  await until(async () => (await server.call("GET", "/api/v1/sandboxes/search")).body.items.length === 0);
});
