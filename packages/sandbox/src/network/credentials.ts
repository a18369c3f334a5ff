import { createHmac } from "node:crypto";
import { Transform } from "node:stream";
import type { CredentialRule } from "../driver.ts";
import type { ProxiedSandbox, SecretLookup } from "./api.ts";
import { findRules, matchesHost } from "./policy/policy.ts";
import { Refusal } from "./proxy/refusal.ts";
import type { Target } from "./proxy/target.ts";
import type { SandboxSecret } from "./sandbox-secret.ts";

/** Prefix of every placeholder. */
const prefix = "sandpiper_";

/** The placeholder of each secret by its variable; constant for a token. */
export function toPlaceholders(
  secrets: readonly { variable: string }[],
  token: string,
): Record<string, string> {
  return Object.fromEntries(secrets.map(({ variable }) => [variable, toPlaceholder(variable, token)]));
}

function toPlaceholder(name: string, token: string): string {
  return `${prefix}${createHmac("sha256", token).update(`placeholder ${name}`).digest("hex").slice(0, 40)}`;
}

interface Secret {
  name: string;
  placeholder: string;
  /** Undefined when the server's variable is not set. */
  value: string | undefined;
  /** The server's variable, for the message about a missing value. */
  fromEnv?: string;
}

/** Headers in Node's raw form: name, value, name, value, …. */
export type RawHeaders = string[];

/** The secrets of one sandbox for one target. */
export class HostCredentials {
  readonly #secrets: Secret[];
  /** Sent values: secrets, and their encoding in Basic authorization. */
  readonly #sent = new Set<string>();

  constructor(secrets: Secret[]) {
    this.#secrets = secrets;
  }

  /** Replaces placeholders by secrets. Throws Refusal for a missing secret. */
  inject(headers: RawHeaders): RawHeaders {
    return headers.map((text, index) => (index % 2 === 0 ? text : this.#injectValue(text)));
  }

  /** True when a secret was sent. */
  get hasSent(): boolean {
    return this.#sent.size > 0;
  }

  /** Masks secrets in response headers. */
  maskHeaders(headers: RawHeaders): RawHeaders {
    const shown = [...this.#secrets.map(({ value }) => value ?? ""), ...this.#sent].filter(canBeMasked);
    return headers.map((text) =>
      shown.reduce((masked, value) => masked.replaceAll(value, "*".repeat(value.length)), text),
    );
  }

  /** Masks secrets in a response body and keeps its length. */
  maskBody(): Transform {
    return maskBytes([...this.#sent].filter(canBeMasked).map((value) => Buffer.from(value, "latin1")));
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
    const filled = this.#fill(text);
    // Only Basic authorization can encode any byte.
    if (filled !== text && /[^\t\x20-\x7e\x80-\xff]/.test(filled))
      throw new Refusal(502, "A secret of several lines cannot be sent in a header.");
    return filled;
  }

  #fill(text: string): string {
    if (!text.includes(prefix)) return text;
    let filled = text;
    for (const { name, placeholder: wanted, value, fromEnv } of this.#secrets) {
      if (!filled.includes(wanted)) continue;
      if (!value)
        throw new Refusal(
          502,
          `The secret ${name} is missing: ${fromEnv ? `set the server's environment variable ${fromEnv}` : "it is empty"}.`,
        );
      filled = filled.replaceAll(wanted, value);
      this.#sent.add(value);
    }
    return filled;
  }
}

/**
 * The credentials of a sandbox: the policy's, read from the server's environment, and with
 * precedence the user's secrets, looked up at each request.
 */
export class SandboxCredentials {
  readonly #sandbox: ProxiedSandbox;
  readonly #rules: { rule: CredentialRule; secret: Secret }[];
  readonly #secrets: SecretLookup | undefined;
  /** Cache by variable. */
  readonly #placeholders = new Map<string, string>();

  constructor(sandbox: ProxiedSandbox, env: NodeJS.ProcessEnv, secrets: SecretLookup | undefined) {
    const { policy, token } = sandbox;
    this.#sandbox = sandbox;
    this.#secrets = policy.userSecrets ? secrets : undefined;
    this.#rules = policy.credentials.map((rule) => {
      const { name, fromEnv } = rule;
      return {
        rule,
        secret: {
          name,
          fromEnv,
          placeholder: toPlaceholder(name, token),
          value: toHeaderBytes(env[fromEnv]),
        },
      };
    });
  }

  /** True when a secret may be sent to the target. */
  covers(target: Target): boolean {
    return this.#policySecrets(target).length > 0 || this.#userSecrets(target).length > 0;
  }

  /** The secrets for one request to a target; undefined when there are none. */
  forTarget(target: Target): HostCredentials | undefined {
    const own = this.#userSecrets(target).map(
      ({ variable, value, outgoingValue = value }): Secret => ({
        name: variable,
        placeholder: this.#placeholder(variable),
        value: toHeaderBytes(outgoingValue),
      }),
    );
    // A user's secret replaces the operator's of the same name.
    const found = [
      ...own,
      ...this.#policySecrets(target).filter(({ name }) => !own.some((one) => one.name === name)),
    ];
    return found.length > 0 ? new HostCredentials(found) : undefined;
  }

  #policySecrets({ host }: Target): Secret[] {
    return this.#rules
      .filter(({ rule }) => rule.hosts.some((pattern) => matchesHost(pattern, host)))
      .map(({ secret }) => secret);
  }

  #userSecrets(target: Target): SandboxSecret[] {
    const { id, userId, policy } = this.#sandbox;
    if (!this.#secrets || userId === undefined) return [];
    const secrets = this.#secrets.forSandbox(userId, id);
    // An allow rule means trust in the host, but not in other services on its other ports.
    const trusted = target.port === 443 && findRules(policy, target).length > 0;
    return secrets.filter(({ hosts }) =>
      hosts ? hosts.some((pattern) => matchesHost(pattern, target.host)) : trusted,
    );
  }

  #placeholder(variable: string): string {
    const known = this.#placeholders.get(variable);
    if (known !== undefined) return known;
    const made = toPlaceholder(variable, this.#sandbox.token);
    this.#placeholders.set(variable, made);
    return made;
  }
}

/** Shorter values occur in ordinary text. */
function canBeMasked(value: string): boolean {
  return value.length >= 6;
}

/** A secret as header value: one character per byte, without trailing line break. */
function toHeaderBytes(value: string | undefined): string | undefined {
  return value === undefined ? undefined : Buffer.from(value.trim()).toString("latin1");
}

/** Replaces secrets in a stream by stars. Holds back only a possible beginning of a secret. */
function maskBytes(secrets: Buffer[]): Transform {
  let held: Buffer = Buffer.alloc(0);
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      const bytes = Buffer.concat([held, piece]);
      for (const secret of secrets) {
        for (let at = bytes.indexOf(secret); at >= 0; at = bytes.indexOf(secret, at + secret.length))
          bytes.fill("*", at, at + secret.length);
      }
      const keep = Math.max(0, ...secrets.map((secret) => overlapLength(bytes, secret)));
      held = bytes.subarray(bytes.length - keep);
      done(null, bytes.subarray(0, bytes.length - keep));
    },
    flush(done) {
      done(null, held);
    },
  });
}

/** Length of the longest suffix of `bytes` that is a prefix of `secret`. */
function overlapLength(bytes: Buffer, secret: Buffer): number {
  for (let length = Math.min(secret.length - 1, bytes.length); length > 0; length--) {
    if (bytes.compare(secret, 0, length, bytes.length - length) === 0) return length;
  }
  return 0;
}
