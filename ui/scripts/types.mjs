// Types of what the server's routes send, made from its OpenAPI document:
//   node scripts/types.mjs > src/plane/views.ts
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const document = JSON.parse(readFileSync(fileURLToPath(new URL("../../docs/reference/openapi.json", import.meta.url)), "utf8"));
/** What a Pod may be is no business of the UI's. */
const OPAQUE = new Set(["podSpec", "config"]);

const resolve = (reference) => reference.slice(2).split("/").reduce((at, part) => at[part], document);

function write(schema, indent) {
  if (schema.$ref) return /^#\/components\/schemas\/\w+$/.test(schema.$ref) ? schema.$ref.split("/").at(-1) : write(resolve(schema.$ref), indent);
  if (schema["x-kubernetes-int-or-string"]) return "number | string";
  if (schema.enum) return schema.enum.filter((value) => value !== null).map((value) => JSON.stringify(value)).join(" | ");
  switch (schema.type) {
    case "string":
      return "string";
    case "boolean":
      return "boolean";
    case "integer":
    case "number":
      return "number";
    case "array": {
      const item = write(schema.items ?? {}, indent);
      return item.includes(" | ") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      if (schema.properties) return fields(schema, indent);
      return `Record<string, ${schema.additionalProperties ? write(schema.additionalProperties, indent) : "unknown"}>`;
    default:
      return "unknown";
  }
}

function fields({ properties, required = [] }, indent) {
  const lines = Object.entries(properties).map(([name, schema]) => `${indent}  ${name}${required.includes(name) ? "" : "?"}: ${OPAQUE.has(name) ? "unknown" : write(schema, `${indent}  `)};\n`);
  return `{\n${lines.join("")}${indent}}`;
}

/** The whole file. */
export function types() {
  const views = Object.keys(document.components.schemas).filter((name) => name === "Condition" || name.endsWith("View"));
  const written = views.map((name) => `export interface ${name} ${fields(document.components.schemas[name], "")}\n`);
  return `// Made from docs/reference/openapi.json by scripts/types.mjs. Do not edit.\n\n${written.join("\n")}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(types());
