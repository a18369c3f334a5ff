import { createHmac } from "node:crypto";
import { Transform } from "node:stream";
import type { CredentialRule } from "../driver.ts";
import type { ProxiedSandbox, SecretSource } from "./api.ts";
import { findRules, matchesHost } from "./policy/policy.ts";
import { Refusal } from "./proxy/refusal.ts";
import type { Target } from "./proxy/target.ts";
import type { SandboxSecret } from "./sandbox-secret.ts";

/** How every placeholder begins. */
const prefix = "sandpiper_";

/** What a sandbox sees in the place of each secret, by its variable: the same for as long as the sandbox has its token. */
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
  /** Undefined where the server's variable is not set. */
  value: string | undefined;
  /** Where the value is, for the sentence that tells of a missing one. */
  fromEnv?: string;
}

/** Header lines as Node keeps them: name, value, name, value, …. */
export type RawHeaders = string[];

/** The secrets of one sandbox for one target. */
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
  get hasSent(): boolean {
    return this.#sent.size > 0;
  }

  /** Takes secrets out of headers that come back. */
  maskHeaders(headers: RawHeaders): RawHeaders {
    const shown = [...this.#secrets.map(({ value }) => value ?? ""), ...this.#sent].filter(canBeMasked);
    return headers.map((text) =>
      shown.reduce((masked, value) => masked.replaceAll(value, "*".repeat(value.length)), text),
    );
  }

  /** Takes secrets out of a body that comes back; its length stays. */
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
    // Inside of Basic authorization any byte can stand.
    if (filled !== text && /[^\t\x20-\x7e\x80-\xff]/.test(filled))
      throw new Refusal(502, "A secret of several lines cannot go into a header.");
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
          `The secret for ${name} is not there: ${fromEnv ? `the server's environment variable ${fromEnv} has to be set` : "it is empty"}.`,
        );
      filled = filled.replaceAll(wanted, value);
      this.#sent.add(value);
    }
    return filled;
  }
}

/**
 * The credentials of a sandbox: the policy's, which are read from the server's environment only here, and over them the secrets of its user,
 * which are asked for at each request.
 */
export class Credentials {
  readonly #sandbox: ProxiedSandbox;
  readonly #rules: { rule: CredentialRule; secret: Secret }[];
  readonly #secrets: SecretSource | undefined;
  /** By variable. */
  readonly #placeholders = new Map<string, string>();

  constructor(sandbox: ProxiedSandbox, env: NodeJS.ProcessEnv, secrets: SecretSource | undefined) {
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

  /** Whether there is a secret that may go to a target. */
  covers(target: Target): boolean {
    return this.#policySecrets(target).length > 0 || this.#userSecrets(target).length > 0;
  }

  /** The secrets that may go to a target, for one request; undefined where there are none. */
  forTarget(target: Target): HostCredentials | undefined {
    const own = this.#userSecrets(target).map(
      ({ variable, value, outgoingValue = value }): Secret => ({
        name: variable,
        placeholder: this.#placeholder(variable),
        value: toHeaderBytes(outgoingValue),
      }),
    );
    // A user's own secret takes the place of the operator's of the same name.
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
    // Whoever allows a host by a rule trusts it; what else may listen on other ports is not asked for secrets.
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

/** Shorter ones are everywhere in ordinary text. */
function canBeMasked(value: string): boolean {
  return value.length >= 6;
}

/** A secret as header values hold it: one character for each byte, without the line end that files and forms add. */
function toHeaderBytes(value: string | undefined): string | undefined {
  return value === undefined ? undefined : Buffer.from(value.trim()).toString("latin1");
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
      const keep = Math.max(0, ...secrets.map((secret) => overlapLength(bytes, secret)));
      held = bytes.subarray(bytes.length - keep);
      done(null, bytes.subarray(0, bytes.length - keep));
    },
    flush(done) {
      done(null, held);
    },
  });
}

/** Length of the longest end of `bytes` with which `secret` begins. */
function overlapLength(bytes: Buffer, secret: Buffer): number {
  for (let length = Math.min(secret.length - 1, bytes.length); length > 0; length--) {
    if (bytes.compare(secret, 0, length, bytes.length - length) === 0) return length;
  }
  return 0;
}
