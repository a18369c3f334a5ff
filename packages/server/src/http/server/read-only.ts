import type { App } from "./services.ts";

/** Fields whose values open more than reading: session keys of sandboxes, and links to what runs in them. */
const openers = new Set(["session_api_key", "exposed_urls"]);
const mention = /"(?:session_api_key|exposed_urls)"/;

/** Makes every answer to a read-only key one that does not give away a way to write: these fields are null in it. */
export function installReadOnly(app: App): void {
  app.addHook("onSend", (request, _reply, payload, done) => {
    if (request.principal?.readOnly !== true || typeof payload !== "string" || !mention.test(payload))
      return done(null, payload);
    done(null, withoutOpeners(payload));
  });
}

/** A JSON text without the openers; a text that is no JSON stays as it is. */
function withoutOpeners(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text, (name, value) => (openers.has(name) ? null : value)));
  } catch {
    return text;
  }
}
