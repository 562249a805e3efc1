// What a row of the table of kinds has, and what rows share.

import type { ReactNode } from "react";
import { age } from "./format";
import { pathOf, request } from "./plane/api";
import type { Item, Plural } from "./plane/types";

export interface Column<T> {
  title: string;
  width: string;
  /** Not on a phone. */
  wide?: boolean;
  /** Only where there is room. */
  spare?: boolean;
  cell: (item: T, now: number) => ReactNode;
}

export interface Action<T> {
  label: string;
  command: (item: T) => string;
  /** What comes of it, when the label does not say. */
  means?: string;
  run: (item: T) => Promise<unknown>;
  /** Why it cannot be done now; undefined when it can. */
  refused?: (item: T) => string | undefined;
}

export interface Kind<T extends Item> {
  plural: Plural;
  route: string;
  title: string;
  one: string;
  resource: string;
  key: string;
  /** Which of the blocks of the navigation it is in. */
  block: "work" | "packs";
  columns: Column<T>[];
  facts: (item: T, now: number) => [string, ReactNode][];
  actions: Action<T>[];
  /** What keeps it is written by nobody here: no edit, no delete. */
  readOnly?: true;
  /** Tabs of its own, between Overview and Events. */
  tabs: string[];
  /** What a Task that is created for it runs on. */
  runs?: "agent" | "template";
  /** The same in a terminal. */
  commands: (item: T) => string[];
  /** What deleting takes along. */
  deletes: string;
  /** Which data is lost, if any. */
  loses?: (item: T) => string | undefined;
  empty: { text: string; command: string }[];
}

export const act = (plural: Plural, item: Item, verb: string) => request(`${pathOf(plural, item.namespace, item.name)}/${verb}`, { method: "POST" });
export const namespaceColumn = { title: "Namespace", width: "minmax(90px, 0.7fr)", wide: true, cell: (item: Item) => <span className="quiet mono cut">{item.namespace}</span> };
export const ageColumn = { title: "Age", width: "56px", cell: (item: Item, now: number) => <span className="quiet mono">{age(item.createdAt, now)}</span> };
export const linkTo = (kind: { route: string }, item: { namespace: string; name: string }) => `/${kind.route}/${item.namespace}/${item.name}`;
