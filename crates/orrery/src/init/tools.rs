//! `tools-init`: links the agent's binary that this machine has, instead of copying it for each Pod. Only where the agent's
//! container has files of its own, an imported image, it is copied.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use init::Env;

/// This program, where Pods of this machine see it.
const OWN: &str = "/kubeopencode";
/// Where installers put it, beside what PATH says.
const USUAL: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/opt/opencode/bin", "/opt/orrery/bin"];

pub fn run(env: &Env) -> anyhow::Result<()> {
    let tools = PathBuf::from(env.get_or("TOOLS_DIR", "/tools"));
    let foreign = env.flag("TOOLS_COPY");
    if foreign {
        copy_self(env)?;
    } else {
        link(Path::new(OWN), &tools.join("kubeopencode"))?;
    }
    let Some(binary) = find(env, &tools) else {
        if env.flag("TOOLS_OPTIONAL") {
            crate::style::say("opencode is not installed on this machine; the Task's own command may not need it");
            return Ok(());
        }
        bail!("opencode is not installed where Pods can see it: install it with `npm install -g opencode-ai`");
    };
    let target = tools.join("opencode");
    if foreign { copy(&binary, &target) } else { link(&binary, &target) }
}

/// Beside it and renamed, so that nobody runs half of it.
fn copy(binary: &Path, target: &Path) -> anyhow::Result<()> {
    let beside = target.with_extension("new");
    std::fs::copy(binary, &beside).with_context(|| format!("cannot copy to {}", beside.display()))?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755))?;
    Ok(std::fs::rename(beside, target)?)
}

fn link(binary: &Path, link: &Path) -> anyhow::Result<()> {
    if link.symlink_metadata().is_ok() {
        std::fs::remove_file(link)?;
    }
    symlink(binary, link).with_context(|| format!("cannot link {}", link.display()))?;
    crate::style::say(format_args!("{} is {}", link.display(), binary.display()));
    Ok(())
}

/// `self-init`: copies this program, for containers of other images.
pub fn copy_self(env: &Env) -> anyhow::Result<()> {
    let target = PathBuf::from(env.get_or("TOOLS_DIR", "/tools")).join("kubeopencode");
    copy(Path::new("/proc/self/exe"), &target)
}

fn find(env: &Env, tools: &Path) -> Option<PathBuf> {
    if let Some(given) = env.get("ORRERY_OPENCODE").map(PathBuf::from) {
        return is_program(&given).then_some(given);
    }
    let listed =
        std::env::split_paths(env.get_or("PATH", "")).filter(|directory| directory != tools).collect::<Vec<_>>();
    let usual = USUAL.iter().map(PathBuf::from);
    listed.into_iter().chain(usual).map(|directory| directory.join("opencode")).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|known| known.is_file() && known.permissions().mode() & 0o111 != 0)
}
