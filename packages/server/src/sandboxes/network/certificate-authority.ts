import { randomBytes, webcrypto } from "node:crypto";
import { link, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { dirname } from "node:path";
import { createSecureContext, type SecureContext } from "node:tls";
import * as x509 from "@peculiar/x509";
import { PlatformError } from "../../errors.ts";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const dayMs = 86_400_000;
const caDays = 3_650;
const leafMs = dayMs;
const maxLeaves = 256;

/**
 * The certificate authority of this installation, for TLS that the proxy has to see into. Only sandboxes that need it are told to trust it. Its key
 * lies in one file of mode 0600 together with its certificate.
 */
export class CertificateAuthority {
  /** PEM. */
  readonly certificate: string;
  readonly #issuer: x509.X509Certificate;
  readonly #key: webcrypto.CryptoKey;
  /** All leaves share one key pair of this process. */
  readonly #leafKeys: webcrypto.CryptoKeyPair;
  readonly #leafKeyPem: string;
  readonly #leaves = new Map<string, { until: number; context: Promise<SecureContext> }>();

  private constructor(parts: {
    certificate: string;
    key: webcrypto.CryptoKey;
    leafKeys: webcrypto.CryptoKeyPair;
    leafKeyPem: string;
  }) {
    this.certificate = parts.certificate;
    this.#issuer = new x509.X509Certificate(parts.certificate);
    this.#key = parts.key;
    this.#leafKeys = parts.leafKeys;
    this.#leafKeyPem = parts.leafKeyPem;
  }

  /** Opens the authority of a file, which is made where it is missing. Throws ConfigInvalid when it is damaged or open to other users. */
  static async open(file: string): Promise<CertificateAuthority> {
    const text = await readPrivate(file).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      await create(file);
      return readPrivate(file);
    });
    try {
      const [keyPem = "", certificate = ""] = text.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----\n?/g) ?? [];
      const der = Buffer.from(keyPem.replace(/-----[^-]+-----/g, ""), "base64");
      const key = await webcrypto.subtle.importKey("pkcs8", der, algorithm, false, ["sign"]);
      const leafKeys = await generateKeys();
      return new CertificateAuthority({ certificate, key, leafKeys, leafKeyPem: await pem(leafKeys.privateKey) });
    } catch (cause) {
      const reason = `The key file ${file} is damaged: restore it from a backup, or remove it (sandboxes that trust the old one then need to be made anew).`;
      throw new PlatformError("ConfigInvalid", reason, { cause });
    }
  }

  /** What a TLS server needs to be this host (a name or an address) for the sandbox. */
  contextFor(host: string): Promise<SecureContext> {
    const known = this.#leaves.get(host);
    this.#leaves.delete(host);
    const leaf = known && known.until > Date.now() ? known : { until: Date.now() + leafMs / 2, context: this.#issue(host) };
    this.#leaves.set(host, leaf);
    if (this.#leaves.size > maxLeaves) this.#leaves.delete(this.#leaves.keys().next().value!);
    return leaf.context;
  }

  async #issue(host: string): Promise<SecureContext> {
    const leaf = await x509.X509CertificateGenerator.create({
      serialNumber: serial(),
      subject: "CN=Sandpiper egress proxy",
      issuer: this.#issuer.subject,
      notBefore: new Date(Date.now() - dayMs / 24),
      notAfter: new Date(Date.now() + leafMs),
      signingAlgorithm: algorithm,
      publicKey: this.#leafKeys.publicKey,
      signingKey: this.#key,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension([{ type: isIP(host) ? "ip" : "dns", value: host }]),
        await x509.AuthorityKeyIdentifierExtension.create(this.#issuer),
        await x509.SubjectKeyIdentifierExtension.create(this.#leafKeys.publicKey),
      ],
    });
    return createSecureContext({ key: this.#leafKeyPem, cert: leaf.toString("pem") });
  }
}

/** The file appears complete, or not at all; one that another process has just made stays. */
async function create(file: string): Promise<void> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(),
    name: "CN=Sandpiper egress proxy of this installation",
    notBefore: new Date(Date.now() - dayMs),
    notAfter: new Date(Date.now() + caDays * dayMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, `${await pem(keys.privateKey)}\n${certificate.toString("pem")}\n`, {
      mode: 0o600,
      flag: "wx",
      flush: true,
    });
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
}

async function readPrivate(file: string): Promise<string> {
  const { mode } = await stat(file);
  if ((mode & 0o077) !== 0)
    throw new PlatformError("ConfigInvalid", `The key file ${file} is open to other users: close it with chmod 600 ${file}.`);
  return readFile(file, "utf8");
}

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]) as Promise<webcrypto.CryptoKeyPair>;
}

async function pem(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key));
  return `-----BEGIN PRIVATE KEY-----\n${der.toString("base64").replace(/.{64}(?=.)/g, "$&\n")}\n-----END PRIVATE KEY-----`;
}

/** 16 random bytes, positive. */
function serial(): string {
  const bytes = randomBytes(16);
  bytes[0] = (bytes[0]! & 0x7f) | 1;
  return bytes.toString("hex");
}
