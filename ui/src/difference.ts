// Which lines two texts do not share, with a little of what is around them. Pure.

export interface Line {
  kind: "+" | "-" | " ";
  text: string;
}

const AROUND = 2;

export function difference(before: string, after: string): Line[] {
  const a = before.trimEnd().split("\n");
  const b = after.trimEnd().split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  if (start === a.length && start === b.length) return [];
  const middle = longest(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const between = fold(middle);
  const lead = a.slice(Math.max(0, start - AROUND), start).map((text): Line => ({ kind: " ", text }));
  const tail = a.slice(a.length - end, a.length - end + AROUND).map((text): Line => ({ kind: " ", text }));
  return [...lead, ...between, ...tail];
}

/** Leaves out what two changes have between them, when it is long. */
function fold(lines: Line[]): Line[] {
  const near = (index: number) => lines.slice(Math.max(0, index - AROUND), index + AROUND + 1).some((line) => line.kind !== " ");
  const folded: Line[] = [];
  lines.forEach((line, index) => {
    if (near(index)) folded.push(line);
    else if (folded.at(-1)?.text !== "…") folded.push({ kind: " ", text: "…" });
  });
  return folded;
}

/** More comparisons than this take too long; then all of the old is gone and all of the new is new. */
const MOST = 4_000_000;

/** Longest common subsequence; the middle of an edited manifest is short. */
function longest(a: string[], b: string[]): Line[] {
  if (a.length * b.length > MOST) return [...a.map((text): Line => ({ kind: "-", text })), ...b.map((text): Line => ({ kind: "+", text }))];
  const table = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  const at = (i: number, j: number) => table[i]?.[j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) table[i]![j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: " ", text: a[i]! });
      i++;
      j++;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) lines.push({ kind: "-", text: a[i++]! });
    else lines.push({ kind: "+", text: b[j++]! });
  }
  return lines;
}
