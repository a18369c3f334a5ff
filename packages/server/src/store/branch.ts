/** Listed events that stand side by side in a log, by their indexes (1, 2, …), both inclusive. */
export interface Span {
  first: number;
  last: number;
}

/** The events after the index `after` follow on the event with the index `target`; 0: on none. */
export interface Navigation {
  after: number;
  target: number;
}

/**
 * The events that lead to one, as spans in order (events.md section 1, parent_id). A log is linear between two navigations, so the way back is found
 * by these alone, which stand in order of `after`. Index 0 is led to by none.
 */
export function spansTo(index: number, navigations: readonly Navigation[]): Span[] {
  const spans: Span[] = [];
  let next = navigations.length - 1;
  for (let last = index; last > 0; ) {
    while (next >= 0 && navigations[next]!.after >= last) next--;
    const navigation = navigations[next];
    spans.push({ first: (navigation?.after ?? 0) + 1, last });
    last = navigation?.target ?? 0;
  }
  return spans.reverse();
}

/** Whether an index is in one of the spans, which stand in order. */
export function isInside(spans: readonly Span[], index: number): boolean {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle]!.last < index) low = middle + 1;
    else high = middle;
  }
  return low < spans.length && spans[low]!.first <= index;
}
