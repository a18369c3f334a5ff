/** A refused call; the message is its result (agent-behaviour.md section 14). */
export class UseError extends Error {
  override readonly name = "UseError";
}

export function missingParameter(parameter: string, command: string): UseError {
  return new UseError(`Parameter \`${parameter}\` is required for command ${command}.`);
}

export function invalidParameter(parameter: string, value: unknown, hint: string): UseError {
  const text = JSON.stringify(value) ?? "";
  return new UseError(
    `Invalid \`${parameter}\` parameter: ${text.length > 500 ? `${text.slice(0, 500)}...` : text}. ${hint}`,
  );
}

export function invalidFile(path: string, reason: string): UseError {
  return new UseError(`The file ${path} cannot be used: ${reason}.`);
}
