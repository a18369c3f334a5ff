import { createHmac } from "node:crypto";
import type { CredentialRule } from "../driver.ts";
import type { ProxiedSandbox, SecretLookup } from "./api.ts";
import { minSecretLength } from "./masking/patterns.ts";
import { ResponseMask } from "./masking/response-mask.ts";
import { SentSecrets } from "./masking/sent-secrets.ts";
import { findRules, matchesHost } from "./policy/policy.ts";
import { Refusal } from "./proxy/refusal.ts";
import type { Target } from "./proxy/target.ts";
import type { RawHeaders } from "./raw-headers.ts";
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

/** The values of secrets by their variables, for those that their owner gives to programs. */
export function toValues(secrets: readonly SandboxSecret[]): Record<string, string> {
  return Object.fromEntries(secrets.map(({ variable, value }) => [variable, value]));
}

function toPlaceholder(name: string, token: string): string {
  return `${prefix}${createHmac("sha256", token).update(`placeholder ${name}`).digest("hex").slice(0, 40)}`;
}

interface Secret {
  name: string;
  placeholder: string;
  /** Undefined when the server's variable is not set. */
  value: string | undefined;
  /** Headers that may carry it in addition to those for authentication. */
  headers: readonly string[];
  /** The host that it is for is named, so that everything from there is masked. */
  isNamed: boolean;
  /** The server's variable, for the message about a missing value. */
  fromEnv?: string;
}

/** The secrets of one sandbox for one request to a target, if there are any. */
export class HostCredentials {
  readonly #secrets: Secret[];
  readonly #sent: SentSecrets;
  readonly #withheld: () => Promise<string | undefined>;

  constructor(secrets: Secret[], sent: SentSecrets, withheld: () => Promise<string | undefined>) {
    this.#secrets = secrets;
    this.#sent = sent;
    this.#withheld = withheld;
  }

  /**
   * Replaces placeholders by secrets in the headers that may carry them. Throws Refusal for a
   * missing or withheld secret, and for a placeholder in another header.
   */
  async inject(headers: RawHeaders): Promise<RawHeaders> {
    const values = headers.filter((_, index) => index % 2 === 1);
    if (!values.some((text) => this.#isUsed(readBasic(text)?.plain ?? text))) return headers;
    const refusal = await this.#withheld();
    if (refusal !== undefined) throw new Refusal(403, refusal);
    return headers.map((text, index) =>
      index % 2 === 0 ? text : this.#injectValue(headers[index - 1]!, text),
    );
  }

  /** The mask of the response; undefined when there is no secret that it could show. */
  mask(): ResponseMask | undefined {
    if (this.#secrets.length === 0 && this.#sent.isEmpty) return undefined;
    const values = (named: boolean) =>
      this.#secrets.flatMap(({ value, isNamed }) =>
        isNamed === named && value !== undefined && value.length >= minSecretLength ? [value] : [],
      );
    return new ResponseMask({ sent: this.#sent, always: values(true), inHeaders: values(false) });
  }

  #isUsed(text: string): boolean {
    return text.includes(prefix) && this.#secrets.some(({ placeholder }) => text.includes(placeholder));
  }

  #injectValue(header: string, text: string): string {
    const basic = readBasic(text);
    if (basic) {
      const { scheme, plain } = basic;
      const filled = this.#fill(header, plain);
      return filled === plain ? text : `${scheme}${Buffer.from(filled, "latin1").toString("base64")}`;
    }
    const filled = this.#fill(header, text);
    // Only Basic authorization can encode any byte.
    if (filled !== text && /[^\t\x20-\x7e\x80-\xff]/.test(filled))
      throw new Refusal(502, "A secret of several lines cannot be sent in a header.");
    return filled;
  }

  #fill(header: string, text: string): string {
    if (!text.includes(prefix)) return text;
    let filled = text;
    for (const { name, placeholder: wanted, value, fromEnv, headers } of this.#secrets) {
      if (!filled.includes(wanted)) continue;
      if (!mayCarry(header, headers))
        throw new Refusal(
          403,
          `The secret ${name} is sent in headers for authentication only: to send it in ${header.slice(0, 100)}, name this header in the secret's headers.`,
        );
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
  readonly #lookup: SecretLookup | undefined;
  /** Cache by variable. */
  readonly #placeholders = new Map<string, string>();
  readonly #sent = new SentSecrets();

  constructor(sandbox: ProxiedSandbox, env: NodeJS.ProcessEnv, secrets: SecretLookup | undefined) {
    const { policy, token } = sandbox;
    this.#sandbox = sandbox;
    this.#lookup = secrets;
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
          headers: rule.headers ?? [],
          isNamed: true,
        },
      };
    });
  }

  /**
   * Tells whether the proxy may send a secret to the target (`covers`), and whether a response of
   * the target could contain a secret (`mayReturn`).
   */
  async findExposure(target: Target): Promise<{ covers: boolean; mayReturn: boolean }> {
    const found = await this.#secretsFor(target);
    const mayReturn = !this.#sent.isEmpty || found.some(({ isNamed }) => isNamed);
    return { covers: found.length > 0, mayReturn };
  }

  /** The secrets for one request to a target. */
  async forTarget(target: Target): Promise<HostCredentials> {
    return new HostCredentials(await this.#secretsFor(target), this.#sent, () => this.#withheld());
  }

  async #secretsFor(target: Target): Promise<Secret[]> {
    const own = (await this.#userSecrets(target)).map(
      ({ variable, value, outgoingValue = value, hosts, headers }): Secret => ({
        name: variable,
        placeholder: this.#placeholder(variable),
        value: toHeaderBytes(outgoingValue),
        headers: headers ?? [],
        isNamed: hosts !== null,
      }),
    );
    // A user's secret replaces the operator's of the same name.
    const ofPolicy = this.#policySecrets(target).filter(({ name }) => !own.some((one) => one.name === name));
    return [...own, ...ofPolicy];
  }

  async #withheld(): Promise<string | undefined> {
    const { id, userId } = this.#sandbox;
    return userId === undefined ? undefined : this.#lookup?.withheld(userId, id);
  }

  #policySecrets({ host }: Target): Secret[] {
    return this.#rules
      .filter(({ rule }) => rule.hosts.some((pattern) => matchesHost(pattern, host)))
      .map(({ secret }) => secret);
  }

  async #userSecrets(target: Target): Promise<SandboxSecret[]> {
    const { id, userId, policy } = this.#sandbox;
    if (!this.#secrets || userId === undefined) return [];
    const secrets = await this.#secrets.forSandbox(userId, id);
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

/** A secret as header value: one character per byte, without trailing line break. */
function toHeaderBytes(value: string | undefined): string | undefined {
  return value === undefined ? undefined : Buffer.from(value.trim()).toString("latin1");
}

/** Decodes a header value of Basic authorization. Returns undefined for another value. */
function readBasic(text: string): { scheme: string; plain: string } | undefined {
  const [, scheme, encoded] = /^(basic\s+)([\w+/=-]+)$/i.exec(text) ?? [];
  if (scheme === undefined || encoded === undefined) return undefined;
  return { scheme, plain: Buffer.from(encoded, "base64").toString("latin1") };
}

/** Headers that exist to carry a credential: a server has no reason to show them to others. */
const authenticationHeader =
  /^(?:[a-z0-9]+[-_])*(?:authorization|api[-_]?key|(?:access|application|auth|subscription)[-_]key|token)$/i;

function mayCarry(header: string, further: readonly string[]): boolean {
  return authenticationHeader.test(header) || further.includes(header.toLowerCase());
}
