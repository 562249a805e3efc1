// Everything the pages show, kept by one event stream. Nothing polls, and nothing pretends to be live when it is not.

import { useSyncExternalStore } from "react";
import type { Item, KindMap, Plural } from "./types";

export type Connection = { state: "connecting" } | { state: "live" } | { state: "cut"; since: number };

interface Snapshot {
  kind: Plural;
  namespace: string | null;
  items: Item[];
}

interface Change {
  kind: Plural;
  type: "ADDED" | "MODIFIED" | "DELETED";
  object: Item;
}

const PLURALS: Plural[] = ["tasks", "crontasks", "agents", "agenttemplates", "promptpacks", "agentruntimes", "toolregistries", "agentpolicies", "providers", "packdeployments"];

export const keyOf = (item: { namespace: string; name: string }) => `${item.namespace}/${item.name}`;

export class Store {
  private objects = new Map<Plural, Map<string, Item>>(PLURALS.map((plural) => [plural, new Map()]));
  private sorted = new Map<Plural, Item[]>();
  private loaded = new Set<Plural>();
  private listeners = new Set<() => void>();
  private source?: EventSource;
  private waiting = false;
  connection: Connection = { state: "connecting" };

  open(url = "/api/v1/stream") {
    const source = new EventSource(url);
    this.source = source;
    source.onopen = () => this.connected({ state: "live" });
    source.onerror = () => {
      this.connected(this.connection.state === "cut" ? this.connection : { state: "cut", since: Date.now() });
      // A stream that was refused is not tried again by the browser; a server that comes back may take it.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.reopen(url, source), 2000);
    };
    source.addEventListener("snapshot", (event) => this.snapshot(JSON.parse(event.data) as Snapshot));
    source.addEventListener("change", (event) => this.change(JSON.parse(event.data) as Change));
  }

  close() {
    this.source?.close();
    this.source = undefined;
  }

  private reopen(url: string, old: EventSource) {
    if (this.source === old) this.open(url);
  }

  private connected(connection: Connection) {
    this.connection = connection;
    this.tell();
  }

  snapshot({ kind, namespace, items }: Snapshot) {
    const objects = this.objects.get(kind);
    if (!objects) return;
    for (const [key, item] of objects) if (namespace === null || item.namespace === namespace) objects.delete(key);
    for (const item of items) objects.set(keyOf(item), item);
    this.loaded.add(kind);
    this.changed(kind);
  }

  change({ kind, type, object }: Change) {
    const objects = this.objects.get(kind);
    if (!objects) return;
    if (type === "DELETED") objects.delete(keyOf(object));
    else objects.set(keyOf(object), object);
    this.changed(kind);
  }

  private changed(kind: Plural) {
    this.sorted.delete(kind);
    this.tell();
  }

  // Many changes within one frame are one rendering.
  private tell() {
    if (this.waiting) return;
    this.waiting = true;
    queueMicrotask(() => {
      this.waiting = false;
      for (const listener of this.listeners) listener();
    });
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  list<P extends Plural>(plural: P): KindMap[P][] {
    let items = this.sorted.get(plural);
    if (!items) {
      items = [...(this.objects.get(plural)?.values() ?? [])].sort(newestFirst);
      this.sorted.set(plural, items);
    }
    return items as KindMap[P][];
  }

  get<P extends Plural>(plural: P, namespace: string, name: string): KindMap[P] | undefined {
    return this.objects.get(plural)?.get(`${namespace}/${name}`) as KindMap[P] | undefined;
  }

  isLoaded(plural: Plural) {
    return this.loaded.has(plural);
  }
}

function newestFirst(a: Item, b: Item) {
  return b.createdAt.localeCompare(a.createdAt) || b.name.localeCompare(a.name);
}

export const store = new Store();

export function useList<P extends Plural>(plural: P): KindMap[P][] {
  return useSyncExternalStore(store.subscribe, () => store.list(plural));
}

export function useItem<P extends Plural>(plural: P, namespace: string, name: string): KindMap[P] | undefined {
  return useSyncExternalStore(store.subscribe, () => store.get(plural, namespace, name));
}

export function useLoaded(plural: Plural): boolean {
  return useSyncExternalStore(store.subscribe, () => store.isLoaded(plural));
}

export function useConnection(): Connection {
  return useSyncExternalStore(store.subscribe, () => store.connection);
}
