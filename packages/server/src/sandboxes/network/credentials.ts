import { createHmac } from "node:crypto";
import { Transform } from "node:stream";
import type { CredentialRule } from "../driver.ts";
import { matchesHost } from "./policy.ts";
import { Refusal } from "./refusal.ts";

/** What a sandbox sees in the place of each secret, by the variable's name: the same for as long as the sandbox has its token. */
export function placeholders(rules: readonly CredentialRule[], token: string): Record<string, string> {
  return Object.fromEntries(rules.map(({ name }) => [name, placeholder(name, token)]));
}

function placeholder(name: string, token: string): string {
  return `sandpiper_${createHmac("sha256", token).update(`placeholder ${name}`).digest("hex").slice(0, 40)}`;
}

interface Secret {
  name: string;
  placeholder: string;
  /** Undefined where the server's variable is not set. */
  value: string | undefined;
  fromEnv: string;
}

/** Header lines as Node keeps them: name, value, name, value, …. */
export type RawHeaders = string[];

/** The secrets of one sandbox for one host. */
export class HostCredentials {
  readonly #secrets: Secret[];
  /** Values that went out in a header: the secrets, and what they look like in Basic authorization. */
  readonly #sent = new Set<string>();

  constructor(secrets: Secret[]) {
    this.#secrets = secrets;
  }

  /** Puts the secrets in the place of the placeholders. Throws Refusal where one is needed that the server does not have. */
  inject(headers: RawHeaders): RawHeaders {
    return headers.map((text, index) => (index % 2 === 0 ? text : this.#injectValue(text)));
  }

  /** Whether a secret went out. */
  get used(): boolean {
    return this.#sent.size > 0;
  }

  /** Takes secrets out of headers that come back. */
  maskHeaders(headers: RawHeaders): RawHeaders {
    const shown = [...this.#secrets.map(({ value }) => value ?? ""), ...this.#sent].filter(Boolean);
    return headers.map((text) => shown.reduce((masked, value) => masked.replaceAll(value, "*".repeat(value.length)), text));
  }

  /** Takes secrets out of a body that comes back; its length stays. */
  maskBody(): Transform {
    return maskBytes([...this.#sent].map((value) => Buffer.from(value)));
  }

  #injectValue(text: string): string {
    const [, scheme, encoded] = /^(basic\s+)([\w+/=-]+)$/i.exec(text) ?? [];
    if (encoded !== undefined) {
      const plain = Buffer.from(encoded, "base64").toString("latin1");
      const filled = this.#fill(plain);
      if (filled === plain) return text;
      const sent = Buffer.from(filled, "latin1").toString("base64");
      this.#sent.add(sent);
      return `${scheme}${sent}`;
    }
    return this.#fill(text);
  }

  #fill(text: string): string {
    let filled = text;
    for (const { name, placeholder: wanted, value, fromEnv } of this.#secrets) {
      if (!filled.includes(wanted)) continue;
      if (!value)
        throw new Refusal(
          502,
          `The secret for ${name} is not there: the server's environment variable ${fromEnv} has to be set.`,
        );
      filled = filled.replaceAll(wanted, value);
      this.#sent.add(value);
    }
    return filled;
  }
}

/** The credentials of a sandbox. Secrets are read from the server's environment only here. */
export class Credentials {
  readonly #rules: { rule: CredentialRule; secret: Secret }[];

  constructor(rules: readonly CredentialRule[], token: string, env: NodeJS.ProcessEnv) {
    this.#rules = rules.map((rule) => {
      const { name, fromEnv } = rule;
      return { rule, secret: { name, fromEnv, placeholder: placeholder(name, token), value: env[fromEnv]?.trim() } };
    });
  }

  /** The secrets that may go to a host, for one request; undefined where there are none. */
  forHost(host: string): HostCredentials | undefined {
    const found = this.#rules.filter(({ rule }) => rule.hosts.some((pattern) => matchesHost(pattern, host)));
    return found.length > 0 ? new HostCredentials(found.map(({ secret }) => secret)) : undefined;
  }
}

/** Replaces secrets in a stream by stars. What may be the beginning of a secret waits for the next piece; all else goes on at once. */
function maskBytes(secrets: Buffer[]): Transform {
  let held: Buffer = Buffer.alloc(0);
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      const bytes = Buffer.concat([held, piece]);
      for (const secret of secrets) {
        for (let at = bytes.indexOf(secret); at >= 0; at = bytes.indexOf(secret, at + secret.length))
          bytes.fill("*", at, at + secret.length);
      }
      const keep = Math.max(0, ...secrets.map((secret) => beginning(bytes, secret)));
      held = bytes.subarray(bytes.length - keep);
      done(null, bytes.subarray(0, bytes.length - keep));
    },
    flush(done) {
      done(null, held);
    },
  });
}

/** Length of the longest end of `bytes` with which `secret` begins. */
function beginning(bytes: Buffer, secret: Buffer): number {
  for (let length = Math.min(secret.length - 1, bytes.length); length > 0; length--) {
    if (bytes.compare(secret, 0, length, bytes.length - length) === 0) return length;
  }
  return 0;
}
