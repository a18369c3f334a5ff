/** Sends a ready JSON text. */
export function sendJson(reply: { type(contentType: string): { send(payload: unknown): unknown } }, json: string): void {
  reply.type("application/json").send(json);
}

/** A page out of JSON texts. */
export function pageJson({ items, nextPageId }: { items: readonly string[]; nextPageId: string | null }): string {
  return `{"items":[${items.join(",")}],"next_page_id":${JSON.stringify(nextPageId)}}`;
}

/** A list out of JSON texts, `null` where there is none. */
export function arrayJson(items: readonly (string | null)[]): string {
  return `[${items.map((item) => item ?? "null").join(",")}]`;
}
