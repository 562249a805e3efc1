// The REST API, read from the document that the server makes of its own routes. What only reads can be tried here.

import { useEffect, useMemo, useState } from "react";
import { Command, Problem, Skeleton } from "../parts/common";
import { request } from "../plane/api";

interface Parameter {
  name: string;
  in: "path" | "query";
  description?: string;
  required?: boolean;
}

interface Operation {
  summary: string;
  tags: string[];
  parameters: Parameter[];
  requestBody?: { content: Record<string, { schema: { $ref?: string } }> };
  responses: Record<string, { content?: Record<string, unknown> }>;
}

interface Document {
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
}

interface Route {
  path: string;
  method: string;
  operation: Operation;
}

export function Reference() {
  const [document, setDocument] = useState<Document>();
  const [error, setError] = useState<Error>();
  const [text, setText] = useState("");
  useEffect(() => {
    request<Document>("/openapi.json").then(setDocument, setError);
  }, []);
  const groups = useMemo(() => group(document, text.toLowerCase()), [document, text]);
  return (
    <>
      <div className="head">
        <h1>REST API</h1>
        <span className="quiet">{document ? `version ${document.info.version}` : null}</span>
        <div className="grow" />
        <div className="tools">
          <input className="field" data-filter placeholder="/ filter" aria-label="Filter routes" value={text} onChange={(event) => setText(event.target.value)} />
          <a className="button" href="/api/v1/openapi.json" download="orrery-openapi.json">OpenAPI document</a>
        </div>
      </div>
      <Problem error={error} />
      {!document && !error ? <Skeleton /> : null}
      <p className="quiet">Every refusal has the shape <span className="mono">{"{error, message, code, details?}"}</span>. Programs send a token; changes by cookie need the header <span className="mono">x-orrery-request</span>.</p>
      <Command text={`curl -H "Authorization: Bearer $(kubectl create token default)" ${location.origin}/api/v1/info`} />
      {[...groups].map(([tag, routes]) => (
        <section key={tag} aria-label={tag}>
          <h2>{tag}</h2>
          {routes.map((route) => <Entry key={route.method + route.path} {...route} />)}
        </section>
      ))}
    </>
  );
}

function Entry({ path, method, operation }: Route) {
  const [values, setValues] = useState<Record<string, string>>({});
  const [answer, setAnswer] = useState<string>();
  const streams = Object.values(operation.responses).some((response) => response.content && "text/event-stream" in response.content) || "101" in operation.responses;
  const tryable = method === "get" && !streams && path.startsWith("/api/v1");
  const send = async () => {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
    const query = new URLSearchParams(operation.parameters.filter((one) => one.in === "query" && values[one.name]).map((one) => [one.name, values[one.name] ?? ""]));
    const response = await fetch(`${filled}?${query.toString()}`);
    const body = await response.text();
    setAnswer(`${response.status} ${response.statusText}\n${pretty(body)}`);
  };
  return (
    <details className="operation">
      <summary><span className="verb">{method}</span><code className="mono">{path}</code><span className="quiet">{operation.summary}</span></summary>
      <div className="body">
        {operation.requestBody ? <p>Takes {Object.keys(operation.requestBody.content).join(" or ")}: <span className="mono">{Object.values(operation.requestBody.content)[0]?.schema.$ref?.split("/").pop()}</span></p> : null}
        {operation.parameters.map((parameter) => (
          <label key={parameter.name} className="row"><span><span className="mono">{parameter.name}</span> <span className="quiet">{parameter.in === "path" ? "in the path" : parameter.description}</span></span>{tryable ? <input className="field mono" value={values[parameter.name] ?? ""} onChange={(event) => setValues({ ...values, [parameter.name]: event.target.value })} /> : null}</label>
        ))}
        {tryable ? <button type="button" className="button" onClick={() => void send()}>Try it</button> : null}
        {answer ? <pre className="pre" tabIndex={0} role="region" aria-label="Answer" style={{ marginTop: 8, maxHeight: 320, overflow: "auto" }}>{answer}</pre> : null}
      </div>
    </details>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function group(document: Document | undefined, text: string): Map<string, Route[]> {
  const groups = new Map<string, Route[]>();
  for (const [path, methods] of Object.entries(document?.paths ?? {}))
    for (const [method, operation] of Object.entries(methods)) {
      if (!`${method} ${path} ${operation.summary}`.toLowerCase().includes(text)) continue;
      const tag = operation.tags[0] ?? "Server";
      groups.set(tag, [...(groups.get(tag) ?? []), { path, method, operation }]);
    }
  return groups;
}
