import { defineConfig } from "vitest/config";

// One plane and one browser for all of them, so one after the other.
export default defineConfig({
  test: {
    include: ["tests/e2e/*.test.ts"],
    globalSetup: "tests/e2e/plane.ts",
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
});
