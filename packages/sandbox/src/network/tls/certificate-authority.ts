import {
  createECDH,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from "node:crypto";
import { link, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { createSecureContext, type SecureContext } from "node:tls";
import { PlatformError } from "@sandpiper/core/errors";
import { LRUCache } from "lru-cache";
import { createCertificate } from "./certificates.ts";

const dayMs = 86_400_000;
const authorityName = "Sandpiper egress proxy of this installation";
const authorityMs = 3_650 * dayMs;
const leafMs = dayMs;
const maxLeaves = 256;

/**
 * The certificate authority of this installation, for TLS that the proxy terminates. Only sandboxes
 * that need it trust it. One file of mode 0600 holds its key and certificate.
 */
export class CertificateAuthority {
  /** PEM. */
  readonly certificate: string;
  readonly #key: KeyObject;
  /** Shared by all leaf certificates of this process. */
  readonly #leafKey = newKey();
  readonly #leaves = new LRUCache<string, SecureContext>({ max: maxLeaves, ttl: leafMs / 2 });

  private constructor(certificate: string, key: KeyObject) {
    this.certificate = certificate;
    this.#key = key;
  }

  /**
   * Opens or creates the file. Throws ConfigInvalid when it is damaged or readable by other users.
   */
  static async open(file: string): Promise<CertificateAuthority> {
    const text = await readPrivate(file).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      await create(file);
      return readPrivate(file);
    });
    try {
      const key = createPrivateKey(text);
      const certificate = new X509Certificate(text);
      if (!certificate.checkPrivateKey(key)) throw new Error("key and certificate do not belong together");
      return new CertificateAuthority(certificate.toString(), key);
    } catch (cause) {
      throw new PlatformError("AuthorityKeyDamaged", { file }, { cause });
    }
  }

  /**
   * Derives the authority from a secret of 32 random bytes. Servers with the same secret have the
   * same authority, so their sandboxes trust the certificates of each of these servers.
   */
  static derive(secret: Uint8Array): CertificateAuthority {
    const key = deriveKey(secret);
    return new CertificateAuthority(issueAuthority(key), key);
  }

  /** The TLS context of a host (a name or an address) for sandboxes. */
  contextFor(host: string): SecureContext {
    const context = this.#leaves.get(host) ?? this.#issue(host);
    if (!this.#leaves.has(host)) this.#leaves.set(host, context);
    return context;
  }

  #issue(host: string): SecureContext {
    const [from, until] = [Date.now() - dayMs / 24, Date.now() + leafMs];
    const names = { subject: "Sandpiper egress proxy", issuer: authorityName };
    const cert = createCertificate({
      ...names,
      key: this.#leafKey,
      issuerKey: this.#key,
      from,
      until,
      use: { host },
    });
    return createSecureContext({ key: toPem(this.#leafKey), cert });
  }
}

/** Creates the file atomically; keeps one that another process has just created. */
async function create(file: string): Promise<void> {
  const key = newKey();
  const certificate = issueAuthority(key);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, toPem(key) + certificate, { mode: 0o600, flag: "wx", flush: true });
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
}

/** PEM. */
function issueAuthority(key: KeyObject): string {
  const [from, until] = [Date.now() - dayMs, Date.now() + authorityMs];
  const names = { subject: authorityName, issuer: authorityName };
  return createCertificate({ ...names, key, issuerKey: key, from, until, use: "authority" });
}

async function readPrivate(file: string): Promise<string> {
  const { mode } = await stat(file);
  if ((mode & 0o077) !== 0) throw new PlatformError("AuthorityKeyNotPrivate", { file });
  return readFile(file, "utf8");
}

function newKey(): KeyObject {
  return generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
}

function deriveKey(secret: Uint8Array): KeyObject {
  const pair = createECDH("prime256v1");
  // `setPrivateKey` throws for a number above the order of the curve, with a probability of 2^-32.
  pair.setPrivateKey(secret);
  const point = pair.getPublicKey();
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString("base64url"));
  const d = Buffer.from(secret).toString("base64url");
  return createPrivateKey({ key: { kty: "EC", crv: "P-256", x: x!, y: y!, d }, format: "jwk" });
}

function toPem(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}
