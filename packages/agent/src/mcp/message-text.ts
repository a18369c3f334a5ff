/** Invisible characters: a text could tell people and models different things. */
const invisible =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

/** Normalises a server's text and cuts it to `max` characters. */
export function plainText(text: string, max: number): string {
  if (max < 1) return "";
  const cut = text.length > max ? `${text.slice(0, max - 1)}…` : text;
  return cut.toWellFormed().replace(/\r\n?/g, "\n").replace(invisible, "");
}

/** Hides secrets too, also when split by invisible characters or the cut. */
export function shownText(text: string, max: number, shown: (text: string) => string): string {
  return plainText(shown(plainText(text, 2 * max + 1_000)), max);
}

/** One normalised line, for sentences. */
export function shortText(text: string, max = 300): string {
  return plainText(text, max).replace(/\s+/g, " ").trim();
}
