import { PlatformError } from "@sandpiper/core/errors";
import type { Model } from "@sandpiper/models/model";

/** Share of a context window for the prompt: the answer needs the rest, and sizes are estimates. */
const share = 0.8;

const maxModels = 1_000;

/** Sizes in errors: `context length is 8192 tokens`, `> 200000 maximum`, `allowed (1048576)`. */
const sizes = [
  /(?:context (?:length|window|size)|limit)[^0-9]{1,40}([0-9]{4,8})\b/i,
  /> ?([0-9]{4,8})\b/,
  /allowed \(?([0-9]{4,8})\b/i,
];

/** Prompt limits: from the model's known window, and learnt from refusals. */
export class ContextLimits {
  readonly #learnt = new Map<string, number>();

  /** Tokens that a prompt may have; Infinity when unknown. */
  get(userId: string, model: Pick<Model, "name" | "contextWindow">): number {
    const known =
      model.contextWindow > 0 ? Math.floor(model.contextWindow * share) : Number.POSITIVE_INFINITY;
    return Math.min(known, this.#learnt.get(toKey(userId, model)) ?? known);
  }

  /** Records that a prompt of about `tokens` tokens was too long. */
  learn(userId: string, model: Pick<Model, "name" | "contextWindow">, tokens: number, error: unknown): void {
    const text = error instanceof PlatformError ? error.message.slice(0, 2_000) : "";
    const reported = sizes
      .map((pattern) => Number(pattern.exec(text)?.[1] ?? Number.NaN))
      .find((size) => size >= 1_000);
    const limit = Math.floor(Math.min(tokens * 0.9, (reported ?? Number.POSITIVE_INFINITY) * share));
    const key = toKey(userId, model);
    this.#learnt.delete(key);
    this.#learnt.set(key, Math.min(limit, this.get(userId, model)));
    if (this.#learnt.size > maxModels) this.#learnt.delete(this.#learnt.keys().next().value!);
  }

  /** Records a call that worked: forgets a learnt limit that is much smaller. */
  unlearn(userId: string, model: Pick<Model, "name" | "contextWindow">, tokens: number): void {
    const key = toKey(userId, model);
    if (tokens > 1.5 * (this.#learnt.get(key) ?? Number.POSITIVE_INFINITY)) this.#learnt.delete(key);
  }
}

function toKey(userId: string, { name }: Pick<Model, "name">): string {
  return JSON.stringify([userId, name]);
}
