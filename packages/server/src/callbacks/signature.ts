import { createHmac } from "node:crypto";

/** HMAC-SHA256 of `<timestamp>.<body>` as hex, with the timestamp of the header. */
export function signDelivery(secret: string, timestamp: string, body: string): string {
  return createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
}
