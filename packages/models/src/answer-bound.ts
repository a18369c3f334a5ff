/** More than any model writes in one answer: texts, thoughts and arguments of calls, characters. */
export const maxAnswerChars = 1_000_000;

/** Lets so much of an answer through, and says when it is enough. */
export class AnswerBound {
  #left = maxAnswerChars;

  /** Nothing more is to be read of the answer. */
  get isReached(): boolean {
    return this.#left === 0;
  }

  /** A piece, or what of it there is room for. */
  take(piece: string): string {
    const taken = piece.length <= this.#left ? piece : piece.slice(0, this.#left);
    this.#left -= taken.length;
    return taken;
  }
}
