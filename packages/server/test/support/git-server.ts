import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { join } from "node:path";
import { ownAddress, serve, testAuthority } from "@sandpiper/sandbox/test/support/egress";

/** A git service behind TLS: git's HTTP backend over bare repositories. */
export interface GitServer {
  /** Host without a port: it listens on 443. */
  host: string;
  /** File with the authority of its certificate, for NODE_EXTRA_CA_CERTS. */
  authority: string;
  /** Tokens that were shown, by repository. */
  seen: { path: string; authorization: string | undefined }[];
  /** Makes `owner/name` with these files on `main`, and with a branch for each further set. */
  repository(
    name: string,
    files: Record<string, string>,
    branches?: Record<string, Record<string, string>>,
  ): void;
  /** Answers to a repository wait until the returned function is called. */
  hold(name: string): () => void;
  /** A command of git in a bare repository. */
  git(name: string, ...words: string[]): string;
  close(): Promise<void>;
}

/** Repositories of the owner `secret` need `token` as password, and so does the service's API. */
export async function startGitServer(token: string): Promise<GitServer> {
  const folder = mkdtempSync("/tmp/sandpiper-test-");
  const host = ownAddress();
  const seen: GitServer["seen"] = [];
  const held = new Map<string, Promise<void>>();
  const run = (cwd: string, ...words: string[]) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...words], {
      cwd,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH, HOME: folder },
    });

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const [path = "", query = ""] = request.url!.split("?");
    const { authorization } = request.headers;
    if (path.startsWith("/api/")) {
      const known = authorization?.includes(token);
      response.writeHead(known ? 200 : 401, { "content-type": "application/json" });
      return void response.end(
        JSON.stringify(known ? { id: 1, login: "ann", avatar_url: "" } : { message: "Bad credentials" }),
      );
    }
    const name = path
      .split("/")
      .slice(1, 3)
      .join("/")
      .replace(/\.git$/, "");
    seen.push({ path, authorization });
    await held.get(name);
    if (name.startsWith("secret/")) {
      const password = Buffer.from((authorization ?? "").replace("Basic ", ""), "base64")
        .toString()
        .split(":")[1];
      if (password !== token)
        return void response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
    }
    backend(request, response, { folder, path, query });
  };
  const server: Server = await serve((request, response) => void answer(request, response), {
    address: host,
    port: 443,
    host,
  });
  const authority = join(folder, "authority.pem");
  writeFileSync(authority, testAuthority);

  return {
    host,
    authority,
    seen,
    repository(name, files, branches = {}) {
      const work = mkdtempSync(join(folder, "work-"));
      run(work, "init", "-q", "-b", "main");
      const commit = (changed: Record<string, string>, text: string) => {
        for (const [path, content] of Object.entries(changed)) {
          execFileSync("mkdir", ["-p", join(work, path, "..")]);
          writeFileSync(join(work, path), content);
        }
        run(work, "add", "-A");
        run(work, "commit", "-q", "--allow-empty", "-m", text);
      };
      commit({}, "first");
      commit(files, "second");
      for (const [branch, changed] of Object.entries(branches)) {
        run(work, "checkout", "-q", "-b", branch, "main");
        commit(changed, branch);
      }
      run(work, "checkout", "-q", "main");
      run(folder, "clone", "-q", "--bare", work, join(folder, `${name}.git`));
    },
    hold(name) {
      const { promise, resolve } = Promise.withResolvers<void>();
      held.set(name, promise);
      return () => {
        held.delete(name);
        resolve();
      };
    },
    git: (name, ...words) => run(join(folder, `${name}.git`), ...words),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function backend(
  request: IncomingMessage,
  response: ServerResponse,
  { folder, path, query }: { folder: string; path: string; query: string },
): void {
  const child = spawn("git", ["http-backend"], {
    env: {
      ...{
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: path,
        QUERY_STRING: query,
      },
      ...{ REQUEST_METHOD: request.method, CONTENT_TYPE: request.headers["content-type"] ?? "" },
      ...{
        HTTP_CONTENT_ENCODING: String(request.headers["content-encoding"] ?? ""),
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      },
    },
  });
  child.stdin.on("error", () => {});
  request.pipe(child.stdin);
  const chunks: Buffer[] = [];
  child.stdout.on("data", (piece: Buffer) => chunks.push(piece));
  child.on("close", () => {
    const whole = Buffer.concat(chunks);
    const split = whole.indexOf("\r\n\r\n");
    const headers = whole.subarray(0, split).toString().split("\r\n");
    for (const line of headers) response.setHeader(line.split(": ")[0]!, line.split(": ")[1]!);
    response.statusCode = Number(/^Status: (\d+)/m.exec(headers.join("\n"))?.[1] ?? 200);
    response.end(whole.subarray(split + 4));
  });
}
