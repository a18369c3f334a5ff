/**
 * Where a text stops being JSON, as `line 3, column 7`, without quoting the text, which may contain
 * secrets. Undefined for valid JSON. Parses the text about 20 times.
 */
export function findJsonFault(text: string): string | undefined {
  if (describe(text) === undefined) return undefined;
  // The shortest beginning that no continuation makes valid ends with the fault.
  let valid = 0;
  let faulty = text.length + 1;
  while (faulty - valid > 1) {
    const middle = Math.floor((valid + faulty) / 2);
    const fault = describe(text.slice(0, middle));
    if (fault === undefined || isAtEnd(fault, middle)) valid = middle;
    else faulty = middle;
  }
  const before = text.slice(0, valid).split("\n");
  const place = `line ${before.length}, column ${before.at(-1)!.length + 1}`;
  return valid === text.length ? `${place}, where its end is missing` : place;
}

function describe(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether the text of this length was only cut off. */
function isAtEnd(fault: string, length: number): boolean {
  const position = / at position (\d+)/.exec(fault)?.[1];
  return /^(?:Unexpected end|Unterminated)/.test(fault) || Number(position) >= length;
}
