import { expect, test } from "vitest";
import { difference } from "./difference";

const text = (lines: string[]) => lines.join("\n");
const shown = (before: string[], after: string[]) => difference(text(before), text(after)).map(({ kind, text }) => `${kind}${text}`);

test("only what is different and a little around it", () => {
  const lines = Array.from({ length: 20 }, (_, index) => `line ${index}`);
  const changed = lines.map((line, index) => (index === 3 || index === 16 ? `${line}, changed` : line));
  expect(shown(lines, changed)).toEqual([
    " line 1", " line 2", "-line 3", "+line 3, changed", " line 4", " line 5", " …", " line 14", " line 15", "-line 16", "+line 16, changed", " line 17", " line 18",
  ]);
  expect(shown(lines, lines)).toEqual([]);
});

test("texts too long to compare line by line are old and new", () => {
  const many = (word: string) => Array.from({ length: 3000 }, (_, index) => `${word} ${index}`);
  const lines = difference(text(many("old")), text(many("new")));
  expect(lines.filter((line) => line.kind === "-").length).toBe(3000);
  expect(lines.filter((line) => line.kind === "+").length).toBe(3000);
});
