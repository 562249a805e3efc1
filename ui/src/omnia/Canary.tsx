// A canary: how large its share is, how both sides are doing, and what can be done about it.

import { useState } from "react";
import { count } from "../format";
import { Command, Problem } from "../parts/common";
import { pathOf, request } from "../plane/api";
import type { Pack } from "../plane/types";

type Running = NonNullable<Pack["canary"]>;
type Side = Running["stable"];

export function Canary({ pack }: { pack: Pack }) {
  const { canary, canaryVersion } = pack;
  if (!canary || !canaryVersion) return <Rejected pack={pack} />;
  const progress = pack.conditions.find((one) => one.type === "CanaryProgressing");
  return (
    <section aria-label="Canary">
      <h2>Canary of version {canaryVersion}</h2>
      <div className={`why ${progress?.status === "False" ? "failed" : progress?.status === "Unknown" ? "waiting" : "running"}`} role="status">
        {progress?.message ? `${progress.message}.` : "It is being prepared."} <span className="quiet">{canary.agentsReady ?? 0} of {canary.agents ?? 0} runtimes have it{canary.verdict ? `; the last look at its numbers: ${canary.verdict.toLowerCase()}` : ""}.</span>
      </div>
      <div className="scroll-x">
        <table className="plain sides" aria-label="Both sides">
          <thead><tr><th>Since the last step</th><th>Share</th><th>Requests</th><th>Errors</th><th>p50</th><th>p95</th><th>In flight</th></tr></thead>
          <tbody>
            <SideRow name={`stable ${pack.activeVersion ?? ""}`} side={canary.stable} />
            <SideRow name={`canary ${canaryVersion}`} side={canary.canary} />
          </tbody>
        </table>
      </div>
      <Share pack={pack} />
    </section>
  );
}

function SideRow({ name, side }: { name: string; side?: Side }) {
  const share = side?.share ?? 0;
  const asked = (side?.requests ?? 0) > 0;
  return (
    <tr>
      <td className="mono">{name}</td>
      <td className="mono">{asked ? `${share.toFixed(1)} %` : "–"}<div className="meter" role="img" aria-label={`${name}: ${share.toFixed(1)} % of the requests`}><span style={{ width: `${share}%` }} /></div></td>
      <td className="mono">{count(side?.requests ?? 0)}</td>
      <td className={`mono ${(side?.errors ?? 0) > 0 ? "failed" : ""}`}>{asked ? `${count(side?.errors ?? 0)} (${(side?.errorRate ?? 0).toFixed(1)} %)` : "–"}</td>
      <td className="mono">{asked ? `${count(side?.latencyP50Ms ?? 0)} ms` : "–"}</td>
      <td className="mono">{asked ? `${count(side?.latencyP95Ms ?? 0)} ms` : "–"}</td>
      <td className="mono">{count(side?.inFlight ?? 0)}</td>
    </tr>
  );
}

/** The slider. 100 is not on it: that is what Promote is for, and it would stay for the next version. */
function Share({ pack }: { pack: Pack }) {
  const now = pack.canaryWeight ?? 0;
  const [chosen, setChosen] = useState<number>();
  const [error, setError] = useState<Error>();
  const value = chosen ?? now;
  const set = async () => {
    setError(undefined);
    try {
      await request(`${pathOf("promptpacks", pack.namespace, pack.name)}/weight?percent=${value}`, { method: "POST" });
      setChosen(undefined);
    } catch (refusal) {
      setError(refusal as Error);
    }
  };
  const patch = JSON.stringify({ spec: { rollout: { canary: { weight: value } } } });
  return (
    <>
      <div className="slider">
        <label htmlFor="weight">Share of the sessions</label>
        <input id="weight" type="range" min={0} max={99} value={value} aria-valuetext={`${value} %`} onChange={(event) => setChosen(Number(event.target.value))} />
        <output className="mono" htmlFor="weight">{value} %</output>
        <button type="button" className="button first" disabled={value === now} onClick={() => void set()}>{value === now ? `It is ${now} %` : `Set ${value} %`}</button>
      </div>
      <Problem error={error} />
      <Command text={`kubectl patch promptpack ${pack.name} -n ${pack.namespace} --type=merge -p '${patch}'`} />
    </>
  );
}

function Rejected({ pack }: { pack: Pack }) {
  const { rejected } = pack;
  if (!rejected) return null;
  return <div className="why degraded" role="status">Version <span className="mono">{rejected.version}</span> was given up ({rejected.reason}): {rejected.message} <span className="quiet">{rejected.reason === "Aborted" ? "Try again puts it back on its way; or write another version." : "Write another version to try again."}</span></div>;
}
