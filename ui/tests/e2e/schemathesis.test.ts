// Requests that a machine makes up from the OpenAPI document: whatever is sent, the server does not fail.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { kubectl, origin } from "./browser";

interface Schema {
  type?: string;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
}

interface Document {
  paths: Record<string, Record<string, { parameters: { name: string; in: string; schema: Schema }[] }>>;
  components: { schemas: Record<string, Schema> };
}

/** The first levels of a schema: what a whole Pod may hold would take minutes to make up, and is checked elsewhere. */
function shallow(schema: Schema, depth: number): Schema {
  if (depth === 0) return {};
  const { type, properties, required, items, enum: choices } = schema;
  const inner = Object.entries(properties ?? {}).filter(([name]) => name !== "status");
  return {
    ...(type ? { type } : {}),
    ...(choices ? { enum: choices } : {}),
    ...(required ? { required } : {}),
    ...(properties ? { properties: Object.fromEntries(inner.map(([name, value]) => [name, shallow(value, depth - 1)])) } : {}),
    ...(items ? { items: shallow(items, depth - 1) } : {}),
  };
}

/** The document with shallow bodies, and with names in its paths that are there as well as ones that are not. */
function prepare(document: Document): Document {
  for (const [name, schema] of Object.entries(document.components.schemas)) if (name !== "Error" && name !== "Pagination") document.components.schemas[name] = shallow(schema, 3);
  for (const operation of Object.values(document.paths).flatMap((methods) => Object.values(methods)))
    for (const parameter of operation.parameters) if (parameter.in === "path") parameter.schema = { type: "string", enum: parameter.name === "namespace" ? ["fuzzing"] : ["there", "not-there", "\u00e4\u0000/..", "Upper"] };
  return document;
}

test("no made-up request makes the server fail", async () => {
  const program = process.env.SCHEMATHESIS;
  expect(program, "SCHEMATHESIS must name the program: use make test-browser").toBeTruthy();
  // A user of one namespace: made-up requests must settle nothing for the other tests.
  const token = kubectl("create", "token", "fuzzer", "-n", "fuzzing");
  const authorization = `Bearer ${token}`;
  const document = (await (await fetch(`${origin}/api/v1/openapi.json`, { headers: { authorization } })).json()) as Document;
  const folder = mkdtempSync(join(tmpdir(), "orrery-schemathesis-"));
  writeFileSync(join(folder, "openapi.json"), JSON.stringify(prepare(document)));
  const words = [
    "run", "openapi.json", "--url", origin, "--header", `Authorization: ${authorization}`,
    "--checks", "not_a_server_error", "--phases", "fuzzing", "--max-examples", "10", "--seed", "1", "--no-color",
    // Streams do not end and sockets are no requests; both have tests of their own.
    "--exclude-path-regex", "/(stream|logs|terminal|login|logout)$",
    "--request-timeout", "10",
  ];
  const ran = spawnSync(program!, words, { cwd: folder, encoding: "utf8" });
  rmSync(folder, { recursive: true });
  expect(ran.status, `${ran.stdout}\n${ran.stderr}`).toBe(0);
}, 300_000);
