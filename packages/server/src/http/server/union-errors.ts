import type { TLocalizedValidationError } from "typebox/error";

/** A branch of a union in the path of a schema, and the field whose literal tells it apart from the others. */
const literalOfBranch = /^((.*\/anyOf)\/\d+)\/properties\/[^/]+$/;

/**
 * The errors of the branch that a value means. Branches that a literal tells apart (`kind`, `type`) are passed over where the value has
 * another one; where it has none of them, one error lists those that there are.
 */
export function ofMeantBranches(errors: readonly TLocalizedValidationError[]): TLocalizedValidationError[] {
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
    const allowedValues = literals.filter((one) => one.union === union).map((one) => allowedValue(one.error));
    unknown.set(union, { ...error, keyword: "enum", params: { allowedValues } } as TLocalizedValidationError);
  }
  return [...unknown.values(), ...left];
}

function isBelow({ schemaPath }: TLocalizedValidationError, path: string): boolean {
  return schemaPath === path || schemaPath.startsWith(`${path}/`);
}

function allowedValue({ params }: TLocalizedValidationError): unknown {
  return (params as { allowedValue?: unknown }).allowedValue;
}
