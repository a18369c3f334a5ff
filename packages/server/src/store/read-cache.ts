/** Most answers that are kept, and most characters of all of them. */
const maxEntries = 100;
const maxCharacters = 8 * 2 ** 20;

/**
 * Answers that are the same until something is written: kept by their question, and forgotten all at once when `version` changes. Clients
 * poll their lists far more often than anything happens.
 */
export class ReadCache {
  readonly #version: () => number;
  readonly #answers = new Map<string, string>();
  #seen = -1;
  #characters = 0;

  /** `version` gives another number after each write that an answer could show. */
  constructor(version: () => number) {
    this.#version = version;
  }

  /** The answer to a question, made by `make` where it is not known. The question names everything that decides the answer, the user too. */
  get(question: string, make: () => string): string {
    const version = this.#version();
    if (version !== this.#seen) this.#forget(version);
    const known = this.#answers.get(question);
    if (known !== undefined) return known;
    const answer = make();
    if (this.#answers.size >= maxEntries || this.#characters + answer.length > maxCharacters) this.#forget(version);
    this.#answers.set(question, answer);
    this.#characters += answer.length + question.length;
    return answer;
  }

  #forget(version: number): void {
    this.#answers.clear();
    this.#characters = 0;
    this.#seen = version;
  }
}
