import { createHash } from "node:crypto";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Answer = Buffer | ((response: ServerResponse) => void);

/** A registry on loopback that answers with exactly what a test gives it, also with lies. */
export class HostileRegistry {
  readonly #server: Server;
  readonly #blobs = new Map<string, Answer>();
  readonly #manifests = new Map<string, { type: string; body: Buffer }>();

  constructor() {
    this.#server = createServer((request, response) => {
      const [, kind, name] = /\/(manifests|blobs)\/([^/?]+)/.exec(request.url ?? "") ?? [];
      if (!kind) return void response.writeHead(200).end();
      const manifest = kind === "manifests" ? this.#manifests.get(name!) : undefined;
      const answer = manifest?.body ?? (kind === "blobs" ? this.#blobs.get(name!) : undefined);
      if (!answer) return void response.writeHead(404).end();
      if (typeof answer === "function") return answer(response);
      response.writeHead(200, {
        "content-type": manifest?.type ?? "application/octet-stream",
        "content-length": answer.length,
      });
      response.end(request.method === "HEAD" ? undefined : answer);
    });
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Adds a blob; `answer` replaces what is sent for it. */
  blob(content: Buffer, answer: Answer = content): { digest: string; size: number } {
    const digest = digestOf(content);
    this.#blobs.set(digest, answer);
    return { digest, size: content.length };
  }

  /** Serves a manifest or an index under its digest and under a tag. */
  manifest(tag: string, value: object | Buffer, type = "application/vnd.oci.image.manifest.v1+json"): string {
    const body = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
    for (const name of [tag, digestOf(body)]) this.#manifests.set(name, { type, body });
    return digestOf(body);
  }

  /** An image of compressed layers, some with what they contain; returns its reference. */
  image(tag: string, layers: { digest: string; size: number; content?: Buffer }[]): string {
    const none = `sha256:${"0".repeat(64)}`;
    const diff_ids = layers.map(({ content }) => (content ? digestOf(content) : none));
    const rootfs = { type: "layers", diff_ids };
    const config = this.blob(Buffer.from(JSON.stringify({ os: "linux", rootfs, config: {} })));
    this.manifest(tag, {
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: { mediaType: "application/vnd.oci.image.config.v1+json", ...config },
      layers: layers.map(({ digest, size }) => ({
        ...{ mediaType: "application/vnd.oci.image.layer.v1.tar+gzip", digest, size },
      })),
    });
    return this.reference(tag);
  }

  get host(): string {
    return `localhost:${(this.#server.address() as AddressInfo).port}`;
  }

  reference(tag: string): string {
    return `${this.host}/bomb:${tag}`;
  }
}

function digestOf(content: Buffer): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}
