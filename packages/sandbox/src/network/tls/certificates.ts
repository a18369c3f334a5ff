import { createHash, createPublicKey, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIP } from "node:net";
import { addressBytes } from "@sandpiper/core/outbound/addresses";

export interface CertificateRequest {
  /** Common name. */
  subject: string;
  issuer: string;
  /** Only its public part is used. */
  key: KeyObject;
  issuerKey: KeyObject;
  /** ms since the epoch. */
  from: number;
  until: number;
  /** `host`: name or address of a server. */
  use: "authority" | { host: string };
}

/** Creates an X.509 v3 certificate as PEM. Python 3.13 needs all its extensions. */
export function createCertificate(request: CertificateRequest): string {
  const { subject, issuer, key, issuerKey, use } = request;
  const serial = randomBytes(16);
  serial[0] = (serial[0]! & 0x7f) | 0x40;
  const algorithm = sequence(oid("1.2.840.10045.4.3.2"));
  const authority = use === "authority";
  const body = sequence(
    tlv(0xa0, integer(Buffer.of(2))),
    integer(serial),
    algorithm,
    name(issuer),
    sequence(time(request.from), time(request.until)),
    name(subject),
    spki(key),
    tlv(
      0xa3,
      sequence(
        extension(
          "2.5.29.19",
          true,
          authority ? sequence(tlv(1, Buffer.of(255)), integer(Buffer.of(0))) : sequence(),
        ),
        // keyCertSign and cRLSign, or digitalSignature.
        extension("2.5.29.15", true, tlv(3, authority ? Buffer.of(1, 0x06) : Buffer.of(7, 0x80))),
        extension("2.5.29.14", false, tlv(4, keyId(key))),
        ...(authority ? [] : [extension("2.5.29.35", false, sequence(tlv(0x80, keyId(issuerKey))))]),
        ...(use === "authority" ? [] : [extension("2.5.29.37", false, sequence(oid("1.3.6.1.5.5.7.3.1")))]),
        ...(use === "authority" ? [] : [extension("2.5.29.17", false, sequence(alternativeName(use.host)))]),
      ),
    ),
  );
  const signature = sign("sha256", body, issuerKey);
  const der = sequence(body, algorithm, tlv(3, Buffer.concat([Buffer.of(0), signature])));
  return `-----BEGIN CERTIFICATE-----\n${der.toString("base64").replace(/.{64}(?=.)/g, "$&\n")}\n-----END CERTIFICATE-----\n`;
}

/** A DER value: tag, length, content. */
function tlv(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.of(tag, ...head), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return tlv(0x30, ...parts);
}

function integer(bytes: Buffer): Buffer {
  return tlv(2, bytes);
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((value) => {
    const septets = [value & 127];
    for (let left = value >> 7; left > 0; left >>= 7) septets.unshift((left & 127) | 128);
    return septets;
  });
  return tlv(6, Buffer.from(bytes));
}

/** UTCTime until 2049, then GeneralizedTime. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return ms < Date.UTC(2050) ? tlv(0x17, Buffer.from(text.slice(2))) : tlv(0x18, Buffer.from(text));
}

function name(common: string): Buffer {
  return sequence(tlv(0x31, sequence(oid("2.5.4.3"), tlv(0x0c, Buffer.from(common)))));
}

function extension(id: string, critical: boolean, value: Buffer): Buffer {
  return sequence(oid(id), ...(critical ? [tlv(1, Buffer.of(255))] : []), tlv(4, value));
}

function alternativeName(host: string): Buffer {
  return isIP(host) === 0 ? tlv(0x82, Buffer.from(host)) : tlv(0x87, addressBytes(host));
}

function spki(key: KeyObject): Buffer {
  return (key.type === "private" ? createPublicKey(key) : key).export({ type: "spki", format: "der" });
}

function keyId(key: KeyObject): Buffer {
  return createHash("sha256").update(spki(key)).digest().subarray(0, 20);
}
