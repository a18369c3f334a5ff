/** Parses the version of a Claude model in any spelling; undefined for other names. */
function claudeVersion(modelId: string): { major: number; minor: number; family: string } | undefined {
  const named = /claude-(?:(\d)[-.](\d)-([a-z]+)|([a-z]+)-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d))/i.exec(modelId);
  if (!named) return undefined;
  const [, oldMajor, oldMinor, oldFamily, family, major, minor] = named;
  return {
    major: Number(oldMajor ?? major),
    minor: Number(oldMinor ?? minor ?? 0),
    family: (oldFamily ?? family)!.toLowerCase(),
  };
}

/**
 * How a Claude model thinks: by effort (since 4.6), within a token budget (3.7 to 4.5), or not at
 * all.
 */
export function claudeThinking(modelId: string): "effort" | "budget" | undefined {
  const version = claudeVersion(modelId);
  if (!version) return undefined;
  const { major, minor } = version;
  if (major > 4 || (major === 4 && minor >= 6)) return "effort";
  return major === 4 || (major === 3 && minor === 7) ? "budget" : undefined;
}

/**
 * Maximum thinking budget that leaves the same number of tokens for the answer. The first Opus
 * models answer with at most 32,000 tokens.
 */
export function maxThinkingBudget(modelId: string): number {
  const version = claudeVersion(modelId);
  return version?.family === "opus" && version.major === 4 && version.minor < 5 ? 16_000 : 32_000;
}
