// The whole object: read, edit, see what would change, apply.

import { useEffect, useMemo, useState } from "react";
import { request, requestText } from "../plane/api";
import { difference } from "../difference";
import { Command, Difference, Problem } from "./common";

/** Edits what `path` serves. `version` changes when somebody else has changed it. */
export function YamlTab({ path, version, command, applied }: { path: string; version?: string; command: string; applied?: () => void }) {
  const [original, setOriginal] = useState<string>();
  const [edited, setEdited] = useState("");
  const [error, setError] = useState<Error>();
  const [checked, setChecked] = useState<string>();
  const changed = original !== undefined && edited !== original;

  useEffect(() => {
    if (changed) return;
    requestText(`${path}?output=yaml`).then(
      (text) => {
        setOriginal(text);
        setEdited(text);
      },
      (refusal: Error) => setError(refusal),
    );
    // A newer version replaces the text unless somebody is editing it.
  }, [path, version]); // eslint-disable-line

  const attempt = async (dryRun: boolean) => {
    setError(undefined);
    try {
      if (dryRun) setChecked(await requestText(`${path}?output=yaml&dryRun=All`, { method: "PUT", yaml: edited }));
      else {
        await request(path, { method: "PUT", yaml: edited });
        const text = await requestText(`${path}?output=yaml`);
        setOriginal(text);
        setEdited(text);
        setChecked(undefined);
        applied?.();
      }
    } catch (refusal) {
      setError(refusal as Error);
    }
  };
  const lines = useMemo(() => (checked !== undefined && original !== undefined ? difference(original, checked) : []), [checked, original]);
  return (
    <section aria-label="YAML">
      <Problem error={error} />
      <textarea className="field mono" rows={24} spellCheck={false} aria-label="The object as YAML" value={edited} onChange={(event) => { setEdited(event.target.value); setChecked(undefined); }} />
      <div className="tools" style={{ margin: "8px 0" }}>
        <button type="button" className="button" disabled={!changed} onClick={() => attempt(true)}>Show what would change</button>
        <button type="button" className="button first" disabled={!changed} onClick={() => attempt(false)}>Apply</button>
        <button type="button" className="button" disabled={!changed} onClick={() => { setEdited(original ?? ""); setChecked(undefined); setError(undefined); }}>Undo</button>
      </div>
      {checked !== undefined && lines.length === 0 ? <p role="status">Nothing would change.</p> : null}
      {lines.length > 0 ? <Difference label="What would change" lines={lines} /> : null}
      <Command text={command} />
    </section>
  );
}
