/** Why a request does not go on: an HTTP status and one sentence for the people behind the sandbox. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, sentence: string) {
    super(sentence);
    this.status = status;
  }
}
