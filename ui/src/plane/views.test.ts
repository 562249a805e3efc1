import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

test("types are those of the OpenAPI document", () => {
  const made = execFileSync(process.execPath, ["scripts/types.mjs"], { encoding: "utf8" });
  expect(readFileSync("src/plane/views.ts", "utf8"), "run: npm run types").toBe(made);
});
