// What an object is made of: Deployments, Pods and Services, followed only while a page shows them.

import { useEffect, useState } from "react";
import type { Item } from "./types";

export interface Container {
  name: string;
  ready?: boolean;
  restartCount?: number;
  state?: "waiting" | "running" | "terminated";
  reason?: string;
  message?: string;
  exitCode?: number;
}

export interface Part extends Item {
  kind: "deployments" | "pods" | "services";
  owner?: { kind: string; name: string; uid: string };
  phase?: string;
  reason?: string;
  message?: string;
  containers?: Container[];
  replicas?: number;
  readyReplicas?: number;
  clusterIP?: string;
  ports?: number[];
}

export function useParts(namespace: string, selector: string, kinds = "deployments,pods,services"): Part[] {
  const [parts, setParts] = useState<Part[]>([]);
  useEffect(() => {
    setParts([]);
    const source = new EventSource(`/api/v1/stream?kinds=${kinds}&namespace=${encodeURIComponent(namespace)}&labelSelector=${encodeURIComponent(selector)}`);
    source.addEventListener("snapshot", (event) => {
      const { kind, items } = JSON.parse(event.data) as { kind: Part["kind"]; items: Part[] };
      setParts((old) => [...old.filter((part) => part.kind !== kind), ...items.map((item) => ({ ...item, kind }))]);
    });
    source.addEventListener("change", (event) => {
      const { kind, type, object } = JSON.parse(event.data) as { kind: Part["kind"]; type: string; object: Part };
      setParts((old) => {
        const rest = old.filter((part) => part.uid !== object.uid);
        return type === "DELETED" ? rest : [...rest, { ...object, kind }];
      });
    });
    return () => source.close();
  }, [namespace, selector, kinds]);
  return parts;
}
