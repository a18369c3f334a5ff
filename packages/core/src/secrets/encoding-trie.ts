import { minEncodingLength, minSpread } from "./secret-encodings.ts";

/** Longer encodings are searched in pieces of this length, in characters. */
export const pieceLength = 64;

/**
 * Characters that adjacent pieces share, so that a text which ends between two pieces still ends in
 * the beginning of one.
 */
const pieceOverlap = 8;

/** Number of characters in the hash of a block. */
const block = 3;
const tableSize = 65_536;

/** Characters of a beginning that reveals something; of short encodings, fewer do. */
const tellingLength = 4;

interface Node {
  /** The characters between its parent and it. */
  label: string;
  children: Map<number, Node> | undefined;
  /** A piece ends here. */
  ends: boolean;
  /** Length of the shortest piece that passes here. */
  shortest: number;
}

/**
 * Searches many encodings at once: a table of blocks skips ordinary text (after Wu and Manber), and
 * a compressed trie of pieces is followed where one may begin. Takes at most `pieceLength` steps
 * per character, whatever the encodings are.
 */
export class EncodingTrie {
  readonly #root: Node = { label: "", children: undefined, ends: false, shortest: pieceLength };
  /** How far to go on from a block that ends here, by its hash. */
  readonly #shifts = new Uint8Array(tableSize).fill(minEncodingLength - block + 1);

  get isEmpty(): boolean {
    return this.#root.children === undefined;
  }

  /** Adds an encoding of at least `minEncodingLength` characters. */
  add(encoding: string): void {
    const last = Math.max(0, encoding.length - pieceLength);
    for (let from = 0; from < last; from += pieceLength - pieceOverlap)
      this.#addPiece(encoding.slice(from, from + pieceLength));
    this.#addPiece(encoding.slice(last));
  }

  /**
   * Calls `found` with the longest piece at each place, in the order of places. `isWhole` decides
   * about places of pieces that are shorter than `minSpread`.
   */
  find(
    codes: Uint16Array,
    length: number,
    isWhole: (from: number, to: number) => boolean,
    found: (from: number, to: number) => void,
  ): void {
    if (this.isEmpty) return;
    let end = minEncodingLength - 1;
    while (end < length) {
      const shift = this.#shifts[blockHash(codes[end - 2]!, codes[end - 1]!, codes[end]!)]!;
      if (shift > 0) {
        end += shift;
        continue;
      }
      const from = end - minEncodingLength + 1;
      let longest = 0;
      this.#follow(codes, length, from, (to) => {
        if (to - from >= minSpread || isWhole(from, to)) longest = to;
      });
      if (longest > 0) found(from, longest);
      end++;
    }
  }

  /**
   * The first place from which on the text is a beginning of a piece, and not the whole of it.
   * `telling`: ignores beginnings that are too short to reveal anything.
   */
  openFrom(codes: Uint16Array, length: number, telling: boolean): number {
    for (let from = Math.max(0, length - pieceLength + 1); from < length; from++) {
      const open = this.#follow(codes, length, from, () => {});
      if (!open) continue;
      const enough = Math.min(tellingLength, Math.floor(open.shortest / 3));
      if (!telling || length - from >= enough) return from;
    }
    return length;
  }

  /**
   * Follows the text from a place, and calls `ended` where pieces end. Returns the node at or above
   * which the text ends, when pieces go on there.
   */
  #follow(codes: Uint16Array, length: number, from: number, ended: (to: number) => void): Node | undefined {
    let node = this.#root;
    let at = from;
    for (;;) {
      if (node.ends) ended(at);
      if (at === length) return node.children && node;
      const next = node.children?.get(codes[at]!);
      if (!next) return undefined;
      const { label } = next;
      for (let index = 0; index < label.length; index++, at++) {
        if (at === length) return next;
        if (codes[at] !== label.charCodeAt(index)) return undefined;
      }
      node = next;
    }
  }

  #addPiece(piece: string): void {
    for (let end = block - 1; end < minEncodingLength; end++) {
      const hash = blockHash(piece.charCodeAt(end - 2), piece.charCodeAt(end - 1), piece.charCodeAt(end));
      this.#shifts[hash] = Math.min(this.#shifts[hash]!, minEncodingLength - 1 - end);
    }
    let node = this.#root;
    for (let at = 0; at < piece.length; ) {
      node.children ??= new Map();
      node = childFor(node.children, piece, at);
      node.shortest = Math.min(node.shortest, piece.length);
      at += node.label.length;
    }
    node.ends = true;
  }
}

/** The child whose label the piece has at a place; makes it when there is none. */
function childFor(children: Map<number, Node>, piece: string, at: number): Node {
  const first = piece.charCodeAt(at);
  const child = children.get(first);
  if (!child) {
    const leaf = { label: piece.slice(at), children: undefined, ends: false, shortest: piece.length };
    children.set(first, leaf);
    return leaf;
  }
  const { label } = child;
  let same = 1;
  while (same < label.length && label.charCodeAt(same) === piece.charCodeAt(at + same)) same++;
  if (same === label.length) return child;
  child.label = label.slice(same);
  const middle = {
    label: label.slice(0, same),
    children: new Map([[label.charCodeAt(same), child]]),
    ends: false,
    shortest: child.shortest,
  };
  children.set(first, middle);
  return middle;
}

function blockHash(first: number, second: number, third: number): number {
  return (third ^ (second << 5) ^ (first << 10)) & (tableSize - 1);
}
