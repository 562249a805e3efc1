//! What runs *inside* Pods before and beside the agent: files, Git repositories and URLs are brought to where the
//! manifest wants them.
//!
//! Each verb is told what to do by environment variables, with the names that KubeOpenCode's system image uses, so
//! that either image can serve. Settings are read from an [`Env`] and never from the process directly; nothing here
//! knows Kubernetes.
//!
//! | verb | module |
//! |---|---|
//! | `context-init` | [`context`] |
//! | `git-init`, `git-sync` | [`git`] |
//! | `url-fetch` | [`url`] |
//! | `agent-run` | [`agent`] |
//! | `context-serve` | [`delivery`] |

pub mod agent;
pub mod context;
pub mod delivery;
pub mod env;
pub mod git;
pub mod url;

pub use env::Env;
