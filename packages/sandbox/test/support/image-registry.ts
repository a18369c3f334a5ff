import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { create } from "tar";

/** Files of an image layer by path; a `whiteout` file ends in the name that it deletes. */
export type LayerFiles = Record<string, string | Buffer>;

export interface TestImage {
  layers: LayerFiles[];
  env?: string[];
  user?: string;
  architecture?: string;
}

/** `correct horse` for the user ann. */
const htpasswd = "ann:$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e\n";
export const password = "correct horse";

/** A real registry on a free loopback port, with its files in a temporary folder. */
export class TestRegistry {
  readonly folder = mkdtempSync(join(tmpdir(), "sandpiper-registry-"));
  host = "";
  #process: ChildProcess | undefined;
  #port = 0;

  /** With `auth` only ann may log in. */
  async start({ auth = false } = {}): Promise<this> {
    this.#port ||= await freePort();
    this.host = `localhost:${this.#port}`;
    const file = join(this.folder, "registry.json");
    writeFileSync(join(this.folder, "htpasswd"), htpasswd);
    const config = {
      version: "0.1",
      log: { level: "error", accesslog: { disabled: false } },
      storage: { filesystem: { rootdirectory: join(this.folder, "data") }, delete: { enabled: true } },
      http: { addr: `127.0.0.1:${this.#port}` },
      ...(auth ? { auth: { htpasswd: { realm: "test", path: join(this.folder, "htpasswd") } } } : {}),
    };
    writeFileSync(file, JSON.stringify(config));
    this.#process = spawn("docker-registry", ["serve", file], { stdio: ["ignore", "pipe", "pipe"] });
    this.#process.stdout!.setEncoding("utf8").on("data", (text: string) => this.#log.push(text));
    this.#process.stderr!.resume();
    while (!(await fetch(`http://${this.host}/v2/`).catch(() => undefined))) {
      if (this.#process.exitCode !== null)
        throw new Error("docker-registry ended; apt-get install docker-registry");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return this;
  }

  readonly #log: string[] = [];

  /** Digests of the blobs that were requested since the last call. */
  fetched(): string[] {
    const text = this.#log.splice(0).join("");
    return [...text.matchAll(/"GET \/v2\/\S+\/blobs\/(sha256:[0-9a-f]{64}) HTTP/g)].map(
      ([, digest]) => digest!,
    );
  }

  /** Stops the registry; its files stay for the next `start`. */
  async stop(): Promise<void> {
    const process = this.#process;
    if (!process || process.exitCode !== null) return;
    const ended = new Promise((resolve) => process.once("exit", resolve));
    process.kill("SIGKILL");
    await ended;
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Builds an image and pushes it as `name`; returns the reference. */
  push(name: string, image: TestImage, options: string[] = []): string {
    const reference = `${this.host}/${name}`;
    const layout = join(this.folder, "images", name.replace(/[:/]/g, "-"));
    makeImage(layout, image);
    skopeo(
      "copy",
      "-q",
      "--dest-tls-verify=false",
      ...options,
      `oci:${layout}:image`,
      `docker://${reference}`,
    );
    return reference;
  }
}

/** Creates an OCI layout with one image named `image`. */
export function makeImage(layout: string, { layers, env = [], user, architecture }: TestImage): void {
  rmSync(layout, { recursive: true, force: true });
  mkdirSync(dirname(layout), { recursive: true });
  umoci("init", "--layout", layout);
  umoci("new", "--image", `${layout}:image`);
  for (const files of layers) {
    const folder = mkdtempSync(`${layout}-layer-`);
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), content, { mode: typeof content === "string" ? 0o644 : 0o755 });
    }
    create({ cwd: folder, file: `${folder}.tar`, sync: true, portable: true }, Object.keys(files));
    addLayer(layout, `${folder}.tar`);
    rmSync(folder, { recursive: true });
  }
  const config = [
    ...env.flatMap((line) => ["--config.env", line]),
    ...(user === undefined ? [] : ["--config.user", user]),
  ];
  umoci(
    "config",
    "--image",
    `${layout}:image`,
    ...config,
    ...(architecture ? ["--architecture", architecture] : []),
  );
}

/** Adds a tar file unchanged. */
export function addLayer(layout: string, tar: string): void {
  umoci("raw", "add-layer", "--image", `${layout}:image`, tar);
}

export function umoci(...args: string[]): void {
  execFileSync("umoci", args, { stdio: "pipe" });
}

export function skopeo(...args: string[]): string {
  return execFileSync("skopeo", args, { stdio: "pipe", encoding: "utf8" });
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
