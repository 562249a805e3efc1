// The versions of a pack that are kept, and what is different between two of them.

import { useEffect, useMemo, useState } from "react";
import { useSearchParams } from "react-router";
import { difference } from "../difference";
import { Command, Difference, Problem } from "../parts/common";
import { pathOf, request } from "../plane/api";
import type { Pack } from "../plane/types";

export function Versions({ pack }: { pack: Pack }) {
  const kept = pack.versions ?? [];
  const [parameters, setParameters] = useSearchParams();
  const map = (key: string, usual?: string) => kept.find((one) => one.configMap === parameters.get(key))?.configMap ?? usual ?? "";
  // What a canary would bring; or what the last version brought.
  const [newer, older] = pack.canary ? [kept[1], kept[0]] : [kept[0], kept[1] ?? kept[0]];
  const from = map("from", older?.configMap);
  const to = map("to", newer?.configMap);
  const before = useContent(pack, from);
  const after = useContent(pack, to);
  const lines = useMemo(() => (before.text !== undefined && after.text !== undefined ? difference(before.text, after.text) : undefined), [before.text, after.text]);
  const set = (key: string, value: string) =>
    setParameters((old) => {
      old.set(key, value);
      return old;
    }, { replace: true });
  if (kept.length === 0) return <p className="quiet">No version was accepted yet; the conditions on the Overview tab say why.</p>;
  const choice = (key: string, label: string, value: string) => (
    <label>{label} <select className="field mono" aria-label={`${label} version`} value={value} onChange={(event) => set(key, event.target.value)}>{kept.map((one) => <option key={one.configMap} value={one.configMap}>{one.version}{one.version === pack.activeVersion && one === kept[0] ? " (active)" : ""} · {one.configMap.slice(-6)}</option>)}</select></label>
  );
  return (
    <section aria-label="Versions">
      <table className="plain stacks">
        <thead><tr><th>Version</th><th>State</th><th>Prompts</th><th>Kept in</th></tr></thead>
        <tbody>
          {kept.map((one) => (
            <tr key={one.configMap}>
              <td className="mono">{one.version}</td>
              <td>{one === kept[0] && one.version === pack.activeVersion ? <span className="done">✓ active</span> : one.configMap === pack.canary?.configMap ? <span className="running">● canary</span> : <span className="quiet">kept</span>}</td>
              <td className="mono">{(one.prompts ?? []).join(", ")}</td>
              <td className="mono quiet long">{one.configMap}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h2>What is different</h2>
      <div className="tools">{choice("from", "From", from)}{choice("to", "To", to)}</div>
      <Problem error={before.error ?? after.error} />
      {lines?.length === 0 ? <p role="status">{kept.length === 1 ? "Only one version is kept: there is nothing to compare it with yet." : "Nothing: both are the same."}</p> : null}
      {lines?.length ? <Difference label="What is different" lines={lines} /> : null}
      <Command text={`kubectl get configmap ${to} -n ${pack.namespace} -o jsonpath='{.data.pack\\.json}'`} />
    </section>
  );
}

/** The text of a version, one line a field. Contents never change, so each is asked for once. */
function useContent(pack: Pack, map: string): { text?: string; error?: Error } {
  const [content, setContent] = useState<{ map: string; text?: string; error?: Error }>({ map: "" });
  useEffect(() => {
    let current = true;
    const path = `${pathOf("promptpacks", pack.namespace, pack.name)}/content?configMap=${encodeURIComponent(map)}`;
    request<{ text: string }>(path).then(
      (answer) => current && setContent({ map, text: pretty(answer.text) }),
      (error: Error) => current && setContent({ map, error }),
    );
    return () => {
      current = false;
    };
  }, [pack.namespace, pack.name, map]);
  return content.map === map ? content : {};
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
