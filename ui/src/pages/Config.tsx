// The cluster's settings, which are one object: what is in force, and the object to edit.

import { useEffect, useState } from "react";
import { Command, Facts, Problem } from "../parts/common";
import { YamlTab } from "../parts/YamlTab";
import { request } from "../plane/api";

interface Settings {
  metadata?: { resourceVersion?: string };
  spec?: {
    systemImage?: { image?: string; imagePullPolicy?: string };
    cleanup?: { ttlSecondsAfterFinished?: number; maxRetainedTasks?: number };
    proxy?: { httpProxy?: string; httpsProxy?: string; noProxy?: string };
  };
}

export function Config() {
  const [settings, setSettings] = useState<Settings>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    request<Settings>("/config").then(setSettings, setError);
  }, []);
  const spec = settings?.spec;
  const cleanup = spec?.cleanup;
  return (
    <>
      <div className="head"><h1>Config</h1><span className="quiet">for the whole cluster</span></div>
      <Problem error={error} />
      {settings ? (
        <Facts
          facts={[
            ["System image", <span className="mono cut" title={spec?.systemImage?.image}>{spec?.systemImage?.image ?? "as shipped"}</span>],
            ["Pull policy", spec?.systemImage?.imagePullPolicy ?? "IfNotPresent"],
            ["Finished Tasks are deleted", cleanup?.ttlSecondsAfterFinished === undefined ? "never" : `after ${cleanup.ttlSecondsAfterFinished} s`],
            ["Kept in a namespace", cleanup?.maxRetainedTasks === undefined ? "all" : `${cleanup.maxRetainedTasks} at most`],
            ["Proxy", <span className="mono cut">{spec?.proxy?.httpsProxy ?? spec?.proxy?.httpProxy ?? "none"}</span>],
          ]}
        />
      ) : null}
      {settings && !settings.metadata?.resourceVersion ? <div className="why suspended" role="status">Nobody has made settings yet, so these are the defaults. Add fields under <span className="mono">spec</span> below and apply: that makes them. <Command text="kubectl explain kubeopencodeconfig.spec" /></div> : null}
      {settings ? <YamlTab path="/config" version={settings.metadata?.resourceVersion} command="kubectl edit kubeopencodeconfig cluster" applied={() => void request<Settings>("/config").then(setSettings, setError)} /> : null}
    </>
  );
}
