// The cluster's settings, which are one object.

import { useEffect, useState } from "react";
import { Command, Problem } from "../parts/common";
import { requestText } from "../plane/api";

export function Config() {
  const [text, setText] = useState<string>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    requestText("/config?output=yaml").then(setText, setError);
  }, []);
  const missing = text !== undefined && !text.includes("resourceVersion");
  return (
    <>
      <div className="head"><h1>Config</h1></div>
      {missing ? (
        <div className="empty">
          <p>There are no settings of your own; defaults are in force: system image as shipped, finished Tasks are kept, no proxy.</p>
          <Command text="kubectl explain kubeopencodeconfig.spec" />
        </div>
      ) : <Problem error={error} />}
      {text && !missing ? <pre className="pre">{text}</pre> : null}
      {text && !missing ? <Command text="kubectl edit kubeopencodeconfig cluster" /> : null}
    </>
  );
}
