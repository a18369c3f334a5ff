import type { CallFailure } from "./failure.ts";

/** Parameters that a request omits because the endpoint refused them before. */
export interface ParameterFallbacks {
  /** Cache marks and keys. */
  readonly cache?: true;
  /** Thoughts of earlier answers, and thinking for this one. */
  readonly thoughts?: true;
  readonly images?: true;
  /** Sampling, effort and what else a model can do without. */
  readonly parameters?: true;
}

const refused =
  /unsupported|no endpoints|(?:could |can)not|not (?:supported|support|allowed|permitted|available|valid)|unknown|unrecognized|unexpected|does(?:n't| not)|extra (?:inputs|fields)|invalid|deprecated|only supports?|must|may only|expected|exceeds?|too (?:large|big|many|long)|maximum|at most/i;

/** Parameters that can be dropped, in the order of attempts. */
const causes: readonly [keyof ParameterFallbacks, RegExp][] = [
  [
    "cache",
    /cache[_ -]?(?:control|point|creation)|cached content|cachePoint|prompt_cache|caching|cache.{0,40}too small/i,
  ],
  [
    "thoughts",
    /thinking[` ]*block|`?signature`?|redacted_thinking|encrypted[_ ]content|reasoning[_ ](?:item|content|details)|thought[_ ]?signature|\bphase\b|expected `?(?:thinking|redacted_thinking)/i,
  ],
  ["images", /image|vision|multi-?modal/i],
  [
    "parameters",
    /temperature|top_?p|top_?k|\bseed\b|effort|reasoning|thinking|verbosity|anthropic[_-]beta|beta header|\bstop\b|stop_?sequences?|max_?(?:output_|completion_)?tokens/i,
  ],
];

/**
 * The next parameter to drop after an endpoint refused a request with these words; undefined when
 * they name none.
 */
export function nextFallback(
  failure: CallFailure,
  made: ParameterFallbacks,
  drops: { parameters: boolean },
): keyof ParameterFallbacks | undefined {
  if (failure.tooLong || failure.status === undefined || ![400, 404, 415, 422].includes(failure.status))
    return undefined;
  const text = failure.message.slice(0, 2_000);
  const small = /too small|at least|minimum/i.test(text);
  if (!refused.test(text) && !small) return undefined;
  return causes.find(
    ([name, words]) => !made[name] && words.test(text) && (name !== "parameters" || drops.parameters),
  )?.[0];
}
