import { setTimeout as delay } from "node:timers/promises";
import fc from "fast-check";
import type { OpenApiDocument } from "../../src/http/openapi-schema.ts";
import { AnswerChecks } from "./checks.ts";
import { type Answer, FuzzClient } from "./client.ts";
import { anyRequest, type FuzzRequest } from "./requests.ts";
import { FuzzWorld, planted } from "./world.ts";

/** Routes whose purpose is to give a secret to whoever holds the right key. */
const givesSecrets = /^GET \/api\/v1\/(sandboxes\/\{sandbox_id\}\/settings\/secrets\/|users\/me|webhooks\/secrets)/;

export interface FuzzResult {
  seed: number;
  requests: number;
  statuses: Record<number, number>;
  /** Operations that no request reached beyond the key, or that never answered 2xx. */
  neverSucceeded: string[];
  /** What went wrong, by kind, each with the first request that showed it. */
  problems: string[];
  /** Memory after the garbage collection at the end over that after the first quarter, bytes. */
  grownBytes: number;
}

/** Sends `count` requests that the seed decides, one after the other, and tells everything that should not have happened. */
export async function fuzz(count: number, seed: number): Promise<FuzzResult> {
  const world = await FuzzWorld.open();
  const client = new FuzzClient(world.server.port);
  try {
    const { text } = await client.send("GET", "/openapi.json", {}, undefined);
    const document = JSON.parse(text) as OpenApiDocument;
    const run = new FuzzRun(world, client, document, seed);
    const batch = 200;
    let settled = 0;
    for (let sent = 0; sent < count; sent += batch) {
      // The pool changes with the world, so requests are drawn anew for each batch.
      const requests = fc.sample(anyRequest(document, world.pool), { numRuns: Math.min(batch, count - sent), seed: seed + sent });
      for (const request of requests) await run.one(request);
      await world.replenish();
      if (sent <= count / 4) settled = heapBytes();
    }
    return { ...run.result(count), grownBytes: heapBytes() - settled };
  } finally {
    client.close();
    await world.close();
  }
}

class FuzzRun {
  readonly #world: FuzzWorld;
  readonly #client: FuzzClient;
  readonly #checks: AnswerChecks;
  readonly #seed: number;
  readonly #problems = new Map<string, string>();
  readonly #statuses: Record<number, number> = {};
  readonly #succeeded = new Set<string>();
  readonly #names = new Set<string>();

  constructor(world: FuzzWorld, client: FuzzClient, document: OpenApiDocument, seed: number) {
    this.#world = world;
    this.#client = client;
    this.#checks = new AnswerChecks(document);
    this.#seed = seed;
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const method of Object.keys(methods)) this.#names.add(`${method.toUpperCase()} ${path}`);
    }
  }

  async one(request: FuzzRequest): Promise<void> {
    const before = this.#world.isBusy() ? undefined : this.#world.rows();
    let answer: Answer;
    try {
      answer = await this.#send(request);
    } catch (error) {
      // A server that has refused a body may close the connection before all of it is there.
      const brokenOff = ["ECONNRESET", "EPIPE"].includes((error as NodeJS.ErrnoException).code ?? "");
      if (!(brokenOff && (request.body?.length ?? 0) > 2 ** 20)) this.#report(request, `no answer: ${(error as Error).message}`);
      return;
    }
    this.#statuses[answer.status] = (this.#statuses[answer.status] ?? 0) + 1;
    if (answer.status < 300) this.#succeeded.add(request.name);
    for (const problem of this.#checks.problems(request, answer)) this.#report(request, problem, answer);
    if (!givesSecrets.test(request.name) || answer.status >= 300) {
      const whole = answer.text + JSON.stringify(answer.headers);
      if (whole.includes(planted) && !request.body?.includes(planted)) this.#report(request, "shows a planted secret", answer);
    }
    for (const line of this.#world.badLogLines()) this.#report(request, `log line ${line.slice(0, 400)}`, answer);
    if (before && answer.status >= 400) await this.#checkRows(request, before, answer);
  }

  #send({ method, url, credential, contentType, body }: FuzzRequest): Promise<Answer> {
    const key = this.#world.keyOf(credential);
    const headers: Record<string, string> = {
      ...(key !== undefined && { "X-Session-API-Key": key }),
      ...(contentType !== undefined && { "content-type": contentType }),
    };
    return this.#client.send(method, url, headers, body);
  }

  /** What a refused request changed is there at once; what only work of before changed is not there a second time. */
  async #checkRows(request: FuzzRequest, before: Record<string, number>, answer: Answer): Promise<void> {
    if (changed(before, this.#world.rows()) === "") return;
    for (let round = 0; round < 100 && this.#world.isBusy(); round++) await delay(10);
    const quiet = this.#world.rows();
    const again = await this.#send(request);
    const left = changed(quiet, this.#world.rows());
    if (again.status >= 400 && left !== "") this.#report(request, `refused, but left ${left}`, answer);
  }

  #report(request: FuzzRequest, problem: string, answer?: Answer): void {
    const kind = `${request.name}: ${problem}`;
    if (this.#problems.has(kind)) return;
    const body = request.body === undefined ? "" : ` ${request.contentType}: ${request.body.slice(0, 300)}`;
    const told = answer ? `${answer.status} ${answer.text.slice(0, 200)}` : "nothing";
    this.#problems.set(kind, `as ${request.credential}: ${request.method} ${request.url.slice(0, 300)}${body}\n    -> ${told}`);
  }

  result(requests: number): Omit<FuzzResult, "grownBytes"> {
    return {
      seed: this.#seed,
      requests,
      statuses: this.#statuses,
      neverSucceeded: [...this.#names].filter((name) => !this.#succeeded.has(name)).sort(),
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
