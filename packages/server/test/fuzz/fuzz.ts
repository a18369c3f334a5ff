import { setTimeout as delay } from "node:timers/promises";
import fc from "fast-check";
import type { OpenApiDocument } from "../../src/http/openapi/schema.ts";
import { AnswerChecks } from "./checks.ts";
import { type Answer, FuzzClient } from "./client.ts";
import { anyRequest, type FuzzRequest } from "./requests.ts";
import type { FuzzTarget } from "./target.ts";

/** Routes that return a secret to the holder of the right key. */
const givesSecrets =
  /^GET \/api\/v1\/(sandboxes\/\{sandbox_id\}\/settings\/secrets\/|users\/me|webhooks\/secrets)/;

/** The same for the agent server's surface, and routes that do so on request by a header. */
const givesInside = /^GET \/api\/settings\/secrets\/\{/;
const givesByHeader = /^GET \/api\/(settings|profiles\/\{name\})$/;

/** Routes that wait for a start or an agent's turn; they keep their effects when they fail. */
const failsLate = new Set([
  "POST /v1/chat/completions",
  "POST /api/conversations/{conversation_id}/condense",
]);

export interface FuzzResult {
  seed: number;
  requests: number;
  statuses: Record<number, number>;
  /** Operations that no request reached beyond the key, or that never answered 2xx. */
  neverSucceeded: string[];
  /** Successful routes. */
  succeeded: string[];
  /** Problems by kind, each with the first request that showed it. */
  problems: string[];
  /** Memory after the garbage collection at the end over that after the first quarter, bytes. */
  grownBytes: number;
}

/**
 * Sends `count` requests derived from the seed and reports every violation. With `insist`, routes
 * that have not succeeded get more requests with the best keys and ids.
 */
export async function fuzz(
  count: number,
  seed: number,
  target: FuzzTarget,
  insist = false,
): Promise<FuzzResult> {
  const client = new FuzzClient(target.port, 2 * target.slowMs);
  let run: FuzzRun | undefined;
  let grownBytes = 0;
  try {
    const { text } = await client.send("GET", `${target.base ?? ""}/openapi.json`, {}, undefined);
    const document = JSON.parse(text) as OpenApiDocument;
    const sessionKey = target.keyOf("sandbox");
    const inside = await client.send(
      "GET",
      "/openapi.json",
      sessionKey === undefined ? {} : { "X-Session-API-Key": sessionKey },
      undefined,
    );
    run = new FuzzRun(target, client, document, JSON.parse(inside.text) as OpenApiDocument, seed);
    let settled = 0;
    for (let sent = 0; sent < count; sent += target.batch) {
      // The pools change with the target, so each batch draws new requests.
      const any = fc.oneof(...target.pools.map((pool) => anyRequest(document, pool)));
      const requests = fc.sample(any, { numRuns: Math.min(target.batch, count - sent), seed: seed + sent });
      // Every other batch is sequential: concurrent requests hide what a refused request changes.
      const lanes = (sent / target.batch) % 2 === 1 ? target.lanes : 1;
      const rest = requests.values();
      const lane = async () => {
        for (const request of rest) await run!.one(request, lanes === 1);
      };
      await Promise.all(Array.from({ length: lanes }, lane));
      await target.replenish();
      if (sent <= count / 4) settled = heapBytes();
    }
    if (insist) await run.insist(document);
    grownBytes = heapBytes() - settled;
  } finally {
    client.close();
    const left = await target.close();
    for (const one of left) run?.left(one);
  }
  return { ...run!.result(count), grownBytes };
}

/** Requests that a route gets until one succeeds, at the end. */
const insistence = 60;

/** Times that a refused request that seems to have changed something is sent again. */
const sendings = 3;

class FuzzRun {
  readonly #target: FuzzTarget;
  readonly #client: FuzzClient;
  readonly #checks: AnswerChecks;
  /** Checks of answers to session keys, which see the agent server at every address. */
  readonly #inside: { document: OpenApiDocument; checks: AnswerChecks };
  readonly #seed: number;
  readonly #problems = new Map<string, string>();
  readonly #statuses: Record<number, number> = {};
  readonly #succeeded = new Set<string>();
  readonly #names = new Set<string>();

  constructor(
    target: FuzzTarget,
    client: FuzzClient,
    document: OpenApiDocument,
    inside: OpenApiDocument,
    seed: number,
  ) {
    this.#target = target;
    this.#client = client;
    this.#checks = new AnswerChecks(document, target.slowMs);
    this.#inside = { document: inside, checks: new AnswerChecks(inside, target.slowMs) };
    this.#seed = seed;
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const method of Object.keys(methods)) this.#names.add(`${method.toUpperCase()} ${path}`);
    }
  }

  /** `isAlone`: there are no other requests at the same time. */
  async one(request: FuzzRequest, isAlone = true): Promise<void> {
    const before = !isAlone || (await this.#target.isBusy()) ? undefined : this.#target.rows();
    let answer: Answer;
    try {
      answer = await this.#send(request);
    } catch (error) {
      // A server that has refused a body may close the connection before it receives all of it.
      const { code = "" } = error as NodeJS.ErrnoException;
      const brokenOff = ["ECONNRESET", "EPIPE"].includes(code) && (request.body?.length ?? 0) > 2 ** 20;
      // Too long a head is refused before it is read, even when the method allows no body.
      const unread = code.startsWith("HPE_") && request.method === "HEAD" && request.url.length > 2 ** 14;
      if (!brokenOff && !unread) this.#report(request, `no answer: ${(error as Error).message}`);
      return;
    }
    this.#statuses[answer.status] = (this.#statuses[answer.status] ?? 0) + 1;
    if (answer.status < 300) this.#succeeded.add(request.name);
    for (const problem of this.#problemsOf(request, answer)) this.#report(request, problem, answer);
    if (!this.#maySeeSecrets(request) || answer.status >= 300) {
      const whole = answer.text + JSON.stringify(answer.headers);
      const shown = this.#target.secrets.find(
        (secret) => whole.includes(secret) && !request.body?.includes(secret),
      );
      if (shown !== undefined) this.#report(request, "shows a planted secret", answer);
    }
    for (const line of this.#target.badLogLines())
      this.#report(request, `log line ${line.slice(0, 400)}`, answer);
    if (before && answer.status >= 400) await this.#checkRows(request, before, answer);
  }

  #maySeeSecrets({ name, credential, headers }: FuzzRequest): boolean {
    if (givesSecrets.test(name)) return true;
    if (this.#target.base === undefined && credential !== "sandbox") return false;
    return (
      givesInside.test(name) ||
      (givesByHeader.test(name) && /^plaintext$/i.test(headers["x-expose-secrets"] ?? ""))
    );
  }

  #problemsOf(request: FuzzRequest, answer: Answer): string[] {
    const [method, path] = request.name.split(" ") as [string, string];
    const { document, checks } = this.#inside;
    const operation =
      request.credential === "sandbox" ? document.paths[path]?.[method.toLowerCase()] : undefined;
    const inside = operation ? checks.problems({ ...request, operation }, answer) : undefined;
    // If no key is needed, the key of a deleted sandbox is ignored.
    const isOpen = request.operation.security?.length === 0;
    return inside && !(isOpen && inside.length > 0) ? inside : this.#checks.problems(request, answer);
  }

  /** Routes that have not succeeded get requests that have all that they need. */
  async insist(document: OpenApiDocument): Promise<void> {
    for (const name of this.#neverSucceeded()) {
      await this.#target.replenish();
      const requests = fc.sample(anyRequest(document, this.#target.pools[0]!, name), {
        numRuns: insistence,
        seed: this.#seed,
      });
      for (const [index, request] of requests.entries()) {
        if (this.#succeeded.has(name)) break;
        await this.one({ ...request, credential: index % 4 === 3 ? "sandbox" : "owner" });
      }
    }
  }

  /** Notes what the target left behind. */
  left(what: string): void {
    this.#problems.set(`left behind: ${what}`, "");
  }

  #neverSucceeded(): string[] {
    return [...this.#names].filter((name) => !this.#succeeded.has(name)).sort();
  }

  #send({ method, url, credential, headers: given, contentType, body }: FuzzRequest): Promise<Answer> {
    const key = this.#target.keyOf(credential);
    const headers: Record<string, string> = {
      ...given,
      ...(key !== undefined && { "X-Session-API-Key": key }),
      ...(contentType !== undefined && { "content-type": contentType }),
    };
    return this.#client.send(method, `${this.#target.base ?? ""}${url}`, headers, body);
  }

  /** Repeats a refused request: its own changes recur, those of earlier work do not. */
  async #checkRows(request: FuzzRequest, before: Record<string, number>, answer: Answer): Promise<void> {
    let left = changed(before, this.#target.rows());
    for (let round = 0; round < sendings && left !== ""; round++) {
      const quiet = await this.#rest();
      const again = await this.#send(request);
      left = changed(quiet, this.#target.rows());
      const failedLate = failsLate.has(request.name) && [409, 502, 503, 504].includes(again.status);
      if (again.status < 400 || failedLate) return;
    }
    if (left !== "") this.#report(request, `refused, but left ${left}`, answer);
  }

  /** Waits until earlier work has stopped writing or 2 s are over; returns the row counts. */
  async #rest(): Promise<Record<string, number>> {
    const end = performance.now() + 2_000;
    for (let last = this.#target.rows(); ; ) {
      await delay(20);
      const rows = this.#target.rows();
      const isQuiet = !(await this.#target.isBusy()) && changed(last, rows) === "";
      if (isQuiet || performance.now() > end) return rows;
      last = rows;
    }
  }

  #report(request: FuzzRequest, problem: string, answer?: Answer): void {
    const kind = `${request.name}: ${problem}`;
    if (this.#problems.has(kind)) return;
    const body = request.body === undefined ? "" : ` ${request.contentType}: ${request.body.slice(0, 300)}`;
    const shown = answer ? `${answer.status} ${answer.text.slice(0, 200)}` : "nothing";
    this.#problems.set(
      kind,
      `as ${request.credential}: ${request.method} ${request.url.slice(0, 300)}${body}\n    -> ${shown}`,
    );
  }

  result(requests: number): Omit<FuzzResult, "grownBytes"> {
    return {
      seed: this.#seed,
      requests,
      statuses: this.#statuses,
      neverSucceeded: this.#neverSucceeded(),
      succeeded: [...this.#succeeded],
      problems: [...this.#problems].map(([kind, example]) => `${kind}\n    ${example}`).sort(),
    };
  }
}

/** Rows that a request may change whether it is answered or not: when keys were used. */
function changed(before: Record<string, number>, after: Record<string, number>): string {
  const names = Object.keys(after).filter((name) => before[name] !== after[name]);
  return names.map((name) => `${name} ${before[name]} -> ${after[name]}`).join(", ");
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
