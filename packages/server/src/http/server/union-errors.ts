import type { TLocalizedValidationError } from "typebox/error";

/** The schema path of a literal that discriminates a branch of a union. */
const literalOfBranch = /^((.*\/anyOf)\/\d+)\/properties\/[^/]+$/;

/**
 * The errors of the union branch that a value selects by its literal (`kind`, `type`). If the value
 * matches no branch, one error lists the allowed literals.
 */
export function selectBranchErrors(
  errors: readonly TLocalizedValidationError[],
): TLocalizedValidationError[] {
  const literals = errors.flatMap((error) => {
    const [, branch, union] = (error.keyword === "const" && literalOfBranch.exec(error.schemaPath)) || [];
    return branch !== undefined && union !== undefined ? [{ branch, union, error }] : [];
  });
  const passedOver = (error: TLocalizedValidationError) =>
    literals.some(({ branch }) => isBelow(error, branch));
  const left = errors.filter((error) => !passedOver(error));
  const unknown = new Map<string, TLocalizedValidationError>();
  for (const { union, error } of literals) {
    if (unknown.has(union) || left.some((other) => isBelow(other, union))) continue;
    const allowedValues = literals
      .filter((one) => one.union === union)
      .map((one) => getAllowedValue(one.error));
    unknown.set(union, { ...error, keyword: "enum", params: { allowedValues } } as TLocalizedValidationError);
  }
  return [...unknown.values(), ...left];
}

function isBelow({ schemaPath }: TLocalizedValidationError, path: string): boolean {
  return schemaPath === path || schemaPath.startsWith(`${path}/`);
}

function getAllowedValue({ params }: TLocalizedValidationError): unknown {
  return (params as { allowedValue?: unknown }).allowedValue;
}
