/** Tabs that a browser may have; a page that opens more finds them closed. */
export const maxTabs = 20;

/** A page, as the browser tells of it. */
export interface TargetInfo {
  targetId: string;
  type: string;
  title: string;
  url: string;
  openerId?: string;
}

/** A page with the short id by which the model names its tab. */
export type Target = TargetInfo & { id: string };

/** The pages of a browser, as far as it has told of them, in the order of their opening. */
export class Targets {
  readonly #targets = new Map<string, Target>();

  get size(): number {
    return this.#targets.size;
  }

  get all(): Target[] {
    return [...this.#targets.values()];
  }

  /** Ids by which the browser names them. */
  get ids(): string[] {
    return [...this.#targets.keys()];
  }

  get(targetId: string): Target | undefined {
    return this.#targets.get(targetId);
  }

  has(targetId: string): boolean {
    return this.#targets.has(targetId);
  }

  /** By the id of its tab, however it is written. */
  named(id: string): Target | undefined {
    return this.all.find((target) => target.id === id.trim().toLowerCase());
  }

  /** Takes what the browser tells of a page. What is none, and pages beyond the bound, are left out. */
  learn(info: TargetInfo): void {
    const known = this.#targets.get(info.targetId);
    if (info.type !== "page" || (!known && this.size > maxTabs)) return;
    this.#targets.set(info.targetId, { ...info, id: known?.id ?? this.#newId(info.targetId) });
  }

  delete(targetId: string): void {
    this.#targets.delete(targetId);
  }

  clear(): void {
    this.#targets.clear();
  }

  /** The end of the target's own id; another part of it where that is taken. */
  #newId(targetId: string): string {
    const taken = new Set(this.all.map(({ id }) => id));
    for (let from = targetId.length - 4; from > 0; from--) {
      const id = targetId.slice(from, from + 4).toLowerCase();
      if (!taken.has(id)) return id;
    }
    return targetId;
  }
}
