/** Open tabs; further ones are closed at once. */
export const maxTabs = 20;

/** A page as the browser reports it. */
export interface TargetInfo {
  targetId: string;
  type: string;
  title: string;
  url: string;
  openerId?: string;
}

/** A page with the short id of its tab. */
export type PageTarget = TargetInfo & { id: string };

/** The known pages of a browser, oldest first. */
export class Targets {
  readonly #targets = new Map<string, PageTarget>();

  get size(): number {
    return this.#targets.size;
  }

  get all(): PageTarget[] {
    return [...this.#targets.values()];
  }

  get ids(): string[] {
    return [...this.#targets.keys()];
  }

  get(targetId: string): PageTarget | undefined {
    return this.#targets.get(targetId);
  }

  has(targetId: string): boolean {
    return this.#targets.has(targetId);
  }

  /** Finds a tab by its id, in any case. */
  named(id: string): PageTarget | undefined {
    return this.all.find((target) => target.id === id.trim().toLowerCase());
  }

  /** Records a page that the browser reports. Ignores other targets and pages above the limit. */
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

  /** The end of the target's id, or another part of it when that is taken. */
  #newId(targetId: string): string {
    const taken = new Set(this.all.map(({ id }) => id));
    for (let from = targetId.length - 4; from > 0; from--) {
      const id = targetId.slice(from, from + 4).toLowerCase();
      if (!taken.has(id)) return id;
    }
    return targetId;
  }
}
