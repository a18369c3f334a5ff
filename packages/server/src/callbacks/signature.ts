import { createHmac } from "node:crypto";

/** HMAC-SHA256 over `<timestamp>.<body>` as hex, where the timestamp is the text of its header. */
export function signDelivery(secret: string, timestamp: string, body: string): string {
  return createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
}
