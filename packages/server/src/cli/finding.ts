/** One thing that the platform needs or can use, as `sandpiper doctor` reports it. */
export interface Finding {
  name: string;
  ok: boolean;
  /** Without it the platform cannot do its work. */
  essential: boolean;
  /** What was found. */
  found: string;
  /** What to do about it; only where it is missing. */
  advice?: string;
}

export function finding(
  name: string,
  essential: boolean,
  ok: boolean,
  found: string,
  advice?: string,
): Finding {
  return { name, essential, ok, found, ...(!ok && advice && { advice }) };
}
