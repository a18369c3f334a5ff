import type { App } from "./services.ts";

/** Fields whose values grant more than reading: session keys of sandboxes and preview links. */
const accessFields = new Set(["session_api_key", "exposed_urls"]);
const accessFieldPattern = /"(?:session_api_key|exposed_urls)"/;

/** Sets those fields to null in responses to a read-only key. */
export function installReadOnly(app: App): void {
  app.addHook("onSend", (request, _reply, payload, done) => {
    if (
      request.principal?.readOnly !== true ||
      typeof payload !== "string" ||
      !accessFieldPattern.test(payload)
    )
      return done(null, payload);
    done(null, maskAccessFields(payload));
  });
}

/** Nulls the fields in a JSON text; returns any other text unchanged. */
function maskAccessFields(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text, (name, value) => (accessFields.has(name) ? null : value)));
  } catch {
    return text;
  }
}
