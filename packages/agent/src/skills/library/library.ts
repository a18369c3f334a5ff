import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { MarketplaceRegistration, MarketplaceSkillsPreviewResponse, SkillInfo } from "@sandpiper/wire";
import { mergeSkills, type Skill } from "../skill.ts";
import { addNameTriggers } from "./files.ts";
import { readSkillFolder } from "./folder.ts";
import { fetchMarketplace, type Marketplace } from "./marketplace.ts";

export interface SkillLibraryDeps {
  /** The operator's folder (SANDPIPER_SKILLS). */
  folder: string | undefined;
  outbound: Outbound;
  registrations(userId: string): Promise<readonly MarketplaceRegistration[]>;
  logger: Logger;
}

/** How long a result and a failure are cached, ms. */
const freshMs = 300_000;
const failedMs = 10_000;

/** Cached marketplaces (megabytes each), and concurrent fetches of a request. */
const maxCached = 50;
const maxAtOnce = 4;

interface CachedMarketplace {
  at: number;
  /** Settles with the marketplace or an error sentence. */
  work: Promise<Marketplace | string>;
  done: Marketplace | string | undefined;
}

/** Skills from outside of sandboxes: the operator's, and those of `auto_load` marketplaces. */
export class SkillLibrary {
  readonly #deps: SkillLibraryDeps;
  readonly #cache = new Map<string, CachedMarketplace>();
  #global: readonly Skill[] = [];
  #globalAt = 0;

  constructor(deps: SkillLibraryDeps) {
    this.#deps = deps;
  }

  /** Reads the operator's folder. Throws ConfigInvalid when it cannot be read. */
  async open(): Promise<void> {
    const { folder } = this.#deps;
    if (folder === undefined) return;
    try {
      await this.#readFolder(folder);
    } catch (error) {
      throw new PlatformError("SkillsFolderUnreadable", { reason: errorText(error) }, { cause: error });
    }
  }

  /** The skills read so far; refreshes in the background. The user's own come first. */
  async getLoaded(userId: string): Promise<Skill[]> {
    this.#refreshFolder();
    const own = (await this.#autoLoaded(userId)).flatMap((registration) => {
      const { done } = this.#fetch(registration);
      return typeof done === "object" ? done.skills : [];
    });
    return addNameTriggers(mergeSkills(own, this.#global));
  }

  /** Waits for the user's marketplaces and skips those that fail. Sorted by name. */
  async list(userId: string): Promise<SkillInfo[]> {
    this.#refreshFolder();
    const markets = await each(
      await this.#autoLoaded(userId),
      (registration) => this.#fetch(registration).work,
    );
    const own = markets.flatMap((market) => (typeof market === "object" ? market.skills : []));
    const all = mergeSkills(own, this.#global).map(skillInfo);
    return all.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Lists the contents of registrations without storing them. */
  async preview(
    registrations: readonly MarketplaceRegistration[],
  ): Promise<MarketplaceSkillsPreviewResponse> {
    const answer: MarketplaceSkillsPreviewResponse = {
      skills: [],
      plugins: [],
      marketplace_skills: {},
      errors: [],
    };
    const found = await each(registrations, (registration) => this.#fetch(registration).work);
    const names = new Map<string, string[]>();
    for (const [index, market] of found.entries()) {
      const { name } = registrations[index]!;
      if (typeof market === "string") {
        answer.errors.push(`${name}: ${market}`);
        continue;
      }
      answer.skills.push(...market.skills.map(skillInfo));
      answer.plugins.push(...market.plugins.map((plugin) => ({ ...plugin, marketplace: name })));
      names.set(name, [...(names.get(name) ?? []), ...market.skills.map((skill) => skill.name)]);
    }
    return { ...answer, marketplace_skills: Object.fromEntries(names) };
  }

  async #autoLoaded(userId: string): Promise<MarketplaceRegistration[]> {
    return (await this.#deps.registrations(userId)).filter(({ auto_load }) => auto_load);
  }

  #fetch(registration: MarketplaceRegistration): CachedMarketplace {
    const { source, ref, repo_path } = registration;
    const key = JSON.stringify([source, ref ?? null, repo_path ?? null]);
    const cached = this.#cache.get(key);
    const isFresh = cached && Date.now() - cached.at < (typeof cached.done === "string" ? failedMs : freshMs);
    if (cached && (cached.done === undefined || isFresh)) return cached;
    const work = fetchMarketplace(this.#deps.outbound, registration).catch((error: unknown) => {
      if (error instanceof PlatformError) return error.message;
      this.#deps.logger.error({ err: error }, "a marketplace could not be read");
      return "It could not be read.";
    });
    // The old result counts until the new one arrives.
    const entry: CachedMarketplace = { at: Date.now(), work, done: cached?.done };
    void work.then((done) => {
      entry.done = done;
    });
    this.#cache.delete(key);
    this.#cache.set(key, entry);
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size <= maxCached) break;
      this.#cache.delete(oldest);
    }
    return entry;
  }

  #refreshFolder(): void {
    const { folder, logger } = this.#deps;
    if (folder === undefined || Date.now() - this.#globalAt < freshMs) return;
    this.#readFolder(folder).catch((error) =>
      logger.warn({ err: error }, "the folder of skills cannot be read"),
    );
  }

  async #readFolder(folder: string): Promise<void> {
    this.#globalAt = Date.now();
    this.#global = await readSkillFolder(folder);
  }
}

/** Maps the items a few at a time, in order. */
async function each<A, B>(items: readonly A[], call: (item: A) => Promise<B>): Promise<B[]> {
  const results: B[] = [];
  for (let from = 0; from < items.length; from += maxAtOnce) {
    results.push(...(await Promise.all(items.slice(from, from + maxAtOnce).map(call))));
  }
  return results;
}

function skillInfo({ name, type, source, triggers }: Skill): SkillInfo {
  return { name, type, source, triggers: triggers.length > 0 ? triggers : null };
}
