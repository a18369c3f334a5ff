import type { IncomingMessage } from "node:http";
import { PassThrough, Transform } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { Refusal } from "../proxy/refusal.ts";
import type { RawHeaders } from "../raw-headers.ts";
import { maskStream, maskTexts } from "./byte-mask.ts";
import type { Patterns } from "./patterns.ts";
import type { SentSecrets } from "./sent-secrets.ts";
import { maskFrames } from "./websocket-frames.ts";

/** Request headers that would let a secret come back in a form that is not masked. */
const evading = new Set(["accept-encoding", "range", "if-range"]);
/** Asks for compressed frames, which are never read. */
const extensions = "sec-websocket-extensions";

/** How often larger than received a decompressed body may be, and what is always allowed, bytes. */
const maxExpansion = 200;
const alwaysExpanded = 16 * 2 ** 20;

const decoders: Readonly<Record<string, (() => Transform) | undefined>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

export interface ResponseMaskOptions {
  sent: SentSecrets;
  /** Values that are masked in bodies although this sandbox may not have sent them yet. */
  always: readonly string[];
  /** Further values that are masked in headers only. */
  inHeaders: readonly string[];
}

/** Masks secrets in one response. */
export class ResponseMask {
  readonly #sent: SentSecrets;
  /** Undefined when there is none. */
  readonly #always: Patterns | undefined;
  readonly #inHeaders: Patterns | undefined;

  constructor({ sent, always, inHeaders }: ResponseMaskOptions) {
    this.#sent = sent;
    this.#always = always.length > 0 ? sent.patternsOf(always) : undefined;
    this.#inHeaders = inHeaders.length > 0 ? sent.patternsOf(inHeaders) : undefined;
  }

  /** True when bodies are masked too. */
  get masksBodies(): boolean {
    return this.#always !== undefined || !this.#sent.isEmpty;
  }

  /** A request's headers without those that ask for pieces, compression or extensions. */
  withoutEvading(headers: RawHeaders): RawHeaders {
    const isKept = (name: string) => name !== extensions && !(this.masksBodies && evading.has(name));
    const kept = headers.filter((_text, index) => isKept(headers[index - (index % 2)]!.toLowerCase()));
    return this.masksBodies ? [...kept, "Accept-Encoding", "identity"] : kept;
  }

  /** A response's headers, or its reason phrase. */
  texts(texts: readonly string[]): string[] {
    return maskTexts(texts, [...(this.#inHeaders ? [this.#inHeaders] : []), ...this.#patterns()]);
  }

  /** The stream through which a body passes, which keeps its length unless it is `decoded`. */
  body(): Transform {
    return this.masksBodies ? maskStream(() => this.#patterns()) : new PassThrough();
  }

  /** The stream through which the frames of a WebSocket pass. */
  frames(): Transform {
    return maskFrames(() => this.#patterns());
  }

  /**
   * Streams that decompress a body which a server compressed although it was asked not to. Throws
   * Refusal for an unknown encoding.
   */
  decoders({ headers }: IncomingMessage): Transform[] {
    const coding = headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
    if (!this.masksBodies || coding === "" || coding === "identity") return [];
    const create = decoders[coding];
    if (!create)
      throw new Refusal(502, "The server compressed its answer in a way that cannot be checked for secrets.");
    const received = { bytes: 0 };
    return [countBytes(received), create(), limitExpansion(received)];
  }

  #patterns(): readonly Patterns[] {
    return [...(this.#always ? [this.#always] : []), this.#sent.patterns];
  }
}

function countBytes(received: { bytes: number }): Transform {
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      received.bytes += piece.length;
      done(null, piece);
    },
  });
}

function limitExpansion(received: { bytes: number }): Transform {
  let bytes = 0;
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      bytes += piece.length;
      const isTooLarge = bytes > alwaysExpanded + maxExpansion * received.bytes;
      done(isTooLarge ? new Error("The compressed answer is too large.") : null, piece);
    },
  });
}
