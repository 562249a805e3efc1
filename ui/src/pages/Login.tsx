// The way in for somebody without a session.

import { useState, type FormEvent } from "react";
import { Command, Problem } from "../parts/common";

export function Login() {
  const [token, setToken] = useState("");
  const [error, setError] = useState<Error>();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const response = await fetch("/login", { method: "POST", headers: { authorization: `Bearer ${token}` } });
    if (response.ok) location.assign("/");
    else setError(new Error(((await response.json().catch(() => ({}))) as { message?: string }).message ?? "The token was refused."));
  };
  return (
    <main className="main" style={{ maxWidth: 560, margin: "8vh auto" }}>
      <div className="head"><img src="/orrery.svg" alt="" width="28" height="28" /><h1>Sign in to Orrery</h1></div>
      <Problem error={error} />
      <p>Open the link that <span className="mono">orrery up</span> printed: it signs you in. Or paste a token:</p>
      <form onSubmit={submit}>
        <label className="row"><span>Token</span><input className="field mono" type="password" autoComplete="off" style={{ width: "100%" }} value={token} onChange={(event) => setToken(event.target.value)} /></label>
        <button className="button first" disabled={!token}>Sign in</button>
      </form>
      <h2>A token for a service account</h2>
      <Command text="kubectl create token default" />
    </main>
  );
}
