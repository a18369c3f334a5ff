import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:tls";
import { expect, test } from "vitest";
import { CertificateAuthority } from "./certificate-authority.ts";

/** Whether a client that trusts `ca` accepts the certificate of an authority for localhost. */
async function isTrusted(authority: CertificateAuthority, ca: string): Promise<boolean> {
  const server = createServer({
    SNICallback: (name, done) => done(null, authority.contextFor(name)),
  });
  server.on("tlsClientError", () => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = connect({ host: "127.0.0.1", port, servername: "localhost", ca });
  const trusted = await once(client, "secureConnect").then(
    () => true,
    () => false,
  );
  client.destroy();
  server.close();
  return trusted;
}

test("sandboxes trust the certificates of another server only if both servers have the same secret", async () => {
  const secret = randomBytes(32);
  const [one, same, other] = [secret, secret, randomBytes(32)].map((text) =>
    CertificateAuthority.derive(text),
  );
  expect(await isTrusted(same!, one!.certificate)).toBe(true);
  expect(await isTrusted(other!, one!.certificate)).toBe(false);
});
