/** Bytes of the unfinished requests of one user, and of all users. */
const maxUserBytes = 128 * 1024 * 1024;
const maxBytes = 512 * 1024 * 1024;

/**
 * Bounds the memory of request bodies: each waits there until its last byte has come, and thousands
 * of connections may send one.
 */
export class BodyBudget {
  readonly #users = new Map<string, number>();
  #bytes = 0;

  /**
   * Takes bytes for a user. Returns the function that gives them back, undefined when too many are
   * taken.
   */
  take(user: string, bytes: number): (() => void) | undefined {
    const own = (this.#users.get(user) ?? 0) + bytes;
    if (own > maxUserBytes || this.#bytes + bytes > maxBytes) return undefined;
    this.#users.set(user, own);
    this.#bytes += bytes;
    return () => {
      this.#bytes -= bytes;
      const left = this.#users.get(user)! - bytes;
      if (left > 0) this.#users.set(user, left);
      else this.#users.delete(user);
    };
  }
}
