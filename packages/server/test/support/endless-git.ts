import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { constants, deflateSync } from "node:zlib";
import { ownAddress, serve, testAuthority } from "@sandpiper/sandbox/test/support/egress";

/** A git service whose repositories have no end, behind TLS. */
export interface EndlessGit {
  host: string;
  /** Certificate of its authority, for NODE_EXTRA_CA_CERTS. */
  authority: string;
  /** Bytes of packs that were sent. */
  sent: number;
  /** Bytes of a pack after which it pauses until the returned function is called. */
  pauseAfter(bytes: number): () => void;
  close(): Promise<void>;
}

const head = "1".repeat(40);
const line = (content: string) => `${(content.length + 4).toString(16).padStart(4, "0")}${content}`;
const mebibyte = 2 ** 20;

/** The head of an object in a pack: a blob of this size. */
function blobHead(size: number): Buffer {
  const bytes = [0x30 | (size & 0xf)];
  for (let rest = size >> 4; rest > 0; rest >>= 7) {
    bytes[bytes.length - 1]! |= 0x80;
    bytes.push(rest & 0x7f);
  }
  return Buffer.from(bytes);
}

export async function startEndlessGit(): Promise<EndlessGit> {
  const host = ownAddress();
  let limit = Number.POSITIVE_INFINITY;
  let resume: Promise<void> = Promise.resolve();
  const content = deflateSync(Buffer.alloc(mebibyte), { level: constants.Z_NO_COMPRESSION });
  const object = Buffer.concat([blobHead(mebibyte), content]);
  const service: EndlessGit = {
    host,
    authority: testAuthority,
    sent: 0,
    pauseAfter(bytes) {
      limit = bytes;
      const { promise, resolve } = Promise.withResolvers<void>();
      resume = promise;
      return () => {
        limit = Number.POSITIVE_INFINITY;
        resolve();
      };
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    if (request.url!.startsWith("/api/")) {
      response.writeHead(200, { "content-type": "application/json" });
      return void response.end(JSON.stringify({ id: 1, login: "ann", avatar_url: "" }));
    }
    if (request.url!.includes("info/refs")) {
      response.writeHead(200, { "content-type": "application/x-git-upload-pack-advertisement" });
      const first = `${head} HEAD\0 shallow ofs-delta symref=HEAD:refs/heads/main\n`;
      const refs = line(first) + line(`${head} refs/heads/main\n`);
      return void response.end(`${line("# service=git-upload-pack\n")}0000${refs}0000`);
    }
    const wants = await text(request);
    response.writeHead(200, { "content-type": "application/x-git-upload-pack-result" });
    if (wants.includes("deepen")) response.write(`${line(`shallow ${head}`)}0000`);
    if (!wants.includes("done")) return void response.end();
    response.write(line("NAK\n"));
    const packHead = Buffer.alloc(12, "PACK");
    packHead.writeUInt32BE(2, 4);
    packHead.writeUInt32BE(1_000_000, 8);
    response.write(packHead);
    async function* objects(): AsyncGenerator<Buffer> {
      for (let bytes = 0; ; bytes += object.length) {
        if (bytes >= limit) await resume;
        service.sent += object.length;
        yield object;
      }
    }
    await pipeline(objects, response);
  };
  const server: Server = await serve((request, response) => void answer(request, response).catch(() => {}), {
    address: host,
    port: 443,
    host,
  });
  return service;
}
