type DeepPartial<T> = T extends ((...values: never[]) => unknown) | undefined
  ? T
  : unknown extends T
    ? T
    : { [Name in keyof T]?: DeepPartial<T[Name]> };

/** A stub with only the members that a test uses. */
export const stub = <T>(members: DeepPartial<NoInfer<T>>): T => members as T;

/** A value that violates its type, for tests of checks at run time. */
export const invalid = <T>(value: unknown): T => value as T;
