/** The result of one check of `sandpiper doctor`. */
export interface DoctorFinding {
  name: string;
  ok: boolean;
  /** The platform does not work without it. */
  essential: boolean;
  /** What was found. */
  found: string;
  /** Advice, only when the check fails. */
  advice?: string;
}

export function finding(
  name: string,
  essential: boolean,
  ok: boolean,
  found: string,
  advice?: string,
): DoctorFinding {
  return { name, essential, ok, found, ...(!ok && advice && { advice }) };
}
