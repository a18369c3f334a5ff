/** A function that reads text of a model, a repository, a sandbox or a user. */
export interface Reader {
  name: string;
  read(text: string): unknown;
  /** What bounds the text: a constant, or the bound of the one that hands it over. */
  bound: string;
  /** Pieces that are hostile to this function; each is repeated. */
  pieces: readonly string[];
  /** Characters of the text whose time is measured; default 20,000. */
  longChars?: number;
  /** What stands around the repeated pieces. */
  around?: readonly [before: string, after: string];
}
