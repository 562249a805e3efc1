// Requests. Every refusal has the same shape, and its message says what to do.

export class Refused extends Error {
  constructor(
    readonly code: number,
    readonly reason: string,
    message: string,
  ) {
    super(message);
  }
}

export interface Request {
  signal?: AbortSignal;
  method?: "GET" | "POST" | "PUT" | "DELETE";
  json?: unknown;
  yaml?: string;
}

async function send(path: string, request: Request = {}): Promise<Response> {
  const headers: Record<string, string> = { "x-orrery-request": "1" };
  let body: string | undefined;
  if (request.yaml !== undefined) {
    headers["content-type"] = "application/yaml";
    body = request.yaml;
  } else if (request.json !== undefined) {
    headers["content-type"] = "application/json";
    body = JSON.stringify(request.json);
  }
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, { method: request.method ?? "GET", headers, body, signal: request.signal });
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw new Refused(0, "Unreachable", "The server cannot be reached. Is `orrery up` still running?");
  }
  if (response.ok) return response;
  const refusal = (await response.json().catch(() => ({}))) as { error?: string; message?: string };
  throw new Refused(response.status, refusal.error ?? response.statusText, refusal.message ?? `The server answered ${response.status}`);
}

export async function request<T>(path: string, options?: Request): Promise<T> {
  const response = await send(path, options);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export async function requestText(path: string, options?: Request): Promise<string> {
  return (await send(path, options)).text();
}

/** What is sent back as server-sent events, for requests that an EventSource cannot make. */
export async function* lines(path: string, json: unknown, signal: AbortSignal): AsyncGenerator<string> {
  const response = await send(path, { method: "POST", json, signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    const whole = (rest + value).split("\n");
    rest = whole.pop() ?? "";
    for (const line of whole) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

export const pathOf = (plural: string, namespace: string, name?: string) =>
  `/namespaces/${encodeURIComponent(namespace)}/${plural}${name ? `/${encodeURIComponent(name)}` : ""}`;
