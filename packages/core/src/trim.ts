/** The text without any of `chars` at its end. */
export function trimTail(text: string, chars: string): string {
  let end = text.length;
  while (end > 0 && chars.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** The text without any of `chars` at its beginning and end. */
export function trimBoth(text: string, chars: string): string {
  let from = 0;
  while (from < text.length && chars.includes(text.charAt(from))) from++;
  return trimTail(text.slice(from), chars);
}
