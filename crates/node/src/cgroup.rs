//! Control groups: limits where this machine lets us set them, and plain words where it does not.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use sha2::{Digest as _, Sha256};

use crate::environment::quantity;

/// Processes and threads of one container: enough for any agent, and an end to a fork bomb.
const MOST_PROCESSES: &str = "8192";
const CPU_PERIOD: f64 = 100_000.0;

/// A controller we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Controller {
    Cpu,
    Memory,
    Pids,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// Where groups can be made, by controller.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Directory of ours, and whether it is of version 2.
    bases: BTreeMap<Controller, (PathBuf, bool)>,
    /// The group that we are in ourselves.
    own: Option<PathBuf>,
}

impl Groups {
    /// Looks at what this process may use. `data` tells planes on one machine apart.
    pub fn find(data: &Path) -> Self {
        let digest = Sha256::digest(data.as_os_str().as_encoded_bytes());
        let own = format!("orrery-{}", hex::encode(&digest[..6]));
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::find_in(Path::new("/sys/fs/cgroup"), &membership, &own)
    }

    fn find_in(root: &Path, membership: &str, own: &str) -> Self {
        let mut bases = BTreeMap::new();
        for controller in Controller::ALL {
            let found = version_1(root, membership, controller, own).map(|path| (path, false));
            let found = found.or_else(|| version_2(root, membership, controller, own).map(|path| (path, true)));
            if let Some(base) = found {
                bases.insert(controller, base);
            }
        }
        // Made to see whether we may; made again when a container needs it.
        for (base, _) in bases.values() {
            let _ = fs::remove_dir(base);
        }
        let first = bases.first_key_value();
        let own = first.and_then(|(controller, (_, unified))| own_group(root, membership, *controller, *unified));
        Self { bases, own }
    }

    /// Gets the kernel ready for somebody to join a group soon.
    ///
    /// A process that joins waits until every processor has passed through a quiet state, 15 ms and more, unless somebody
    /// else has just waited for that. So we do, while a Pod's namespaces are made: we join the group that we are in.
    pub fn announce(&self) {
        if let Some(own) = &self.own {
            let _ = fs::write(own, std::process::id().to_string());
        }
    }

    /// Makes the container's groups. Returns what its processes join by, and the limits that nobody will enforce.
    pub fn make(&self, uid: &str, container: &Container) -> (Vec<OwnedFd>, Vec<String>) {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.clone()).unwrap_or_default();
        let limit = |name: &str| limits.get(name).and_then(|limit| quantity(&limit.0));
        let mut joins = Vec::new();
        let mut unenforced: Vec<String> =
            limits.keys().filter(|name| !matches!(name.as_str(), "cpu" | "memory")).cloned().collect();
        for controller in Controller::ALL {
            let value = limit(controller.name());
            let wanted = value.is_some() || controller == Controller::Pids;
            if !wanted {
                continue;
            }
            match self.make_one(controller, uid, &container.name, value) {
                Ok(join) => joins.push(join),
                Err(_) if controller == Controller::Pids => {}
                Err(_) => unenforced.push(controller.name().to_owned()),
            }
        }
        (joins, unenforced)
    }

    fn make_one(&self, controller: Controller, uid: &str, name: &str, limit: Option<f64>) -> std::io::Result<OwnedFd> {
        let missing = || std::io::Error::other("there is no such controller");
        let (base, unified) = self.bases.get(&controller).ok_or_else(missing)?;
        let group = base.join(format!("{uid}-{name}"));
        fs::create_dir_all(base)?;
        if *unified {
            fs::write(base.join("cgroup.subtree_control"), format!("+{}", controller.name()))?;
        }
        fs::create_dir_all(&group)?;
        let value = limit.unwrap_or(0.0);
        let (file, text) = match (controller, unified) {
            (Controller::Pids, _) => ("pids.max", MOST_PROCESSES.to_owned()),
            (Controller::Memory, true) => ("memory.max", format!("{value:.0}")),
            (Controller::Memory, false) => ("memory.limit_in_bytes", format!("{value:.0}")),
            (Controller::Cpu, true) => ("cpu.max", format!("{:.0} {CPU_PERIOD:.0}", value * CPU_PERIOD)),
            (Controller::Cpu, false) => ("cpu.cfs_quota_us", format!("{:.0}", value * CPU_PERIOD)),
        };
        fs::write(group.join(file), text)?;
        if controller == Controller::Memory && *unified {
            // The container dies as one, not one process of it.
            let _ = fs::write(group.join("memory.oom.group"), "1");
        }
        Ok(File::options().write(true).open(group.join("cgroup.procs"))?.into())
    }

    /// Whether the kernel killed something in the container for want of memory.
    pub fn was_out_of_memory(&self, uid: &str, container: &str) -> bool {
        let Some((base, unified)) = self.bases.get(&Controller::Memory) else { return false };
        let file = if *unified { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(base.join(format!("{uid}-{container}")).join(file)).unwrap_or_default();
        text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
    }

    /// Removes the Pod's groups; they are empty by now.
    pub fn remove(&self, uid: &str) {
        for (base, _) in self.bases.values() {
            let groups = fs::read_dir(base).into_iter().flatten().flatten();
            for group in groups.filter(|group| group.file_name().to_string_lossy().starts_with(uid)) {
                let _ = fs::remove_dir(group.path());
            }
            // Ours, when it was the last.
            let _ = fs::remove_dir(base);
        }
    }
}

/// `5:memory:/path` is our place in a version 1 hierarchy.
fn version_1(root: &Path, membership: &str, controller: Controller, own: &str) -> Option<PathBuf> {
    let place = place_1(membership, controller)?;
    usable(&root.join(controller.name()).join(place).join(own))
}

/// `0::/path` is our place in the version 2 hierarchy. Groups with processes cannot have limited children, so ours is
/// made beside the one we are in.
fn version_2(root: &Path, membership: &str, controller: Controller, own: &str) -> Option<PathBuf> {
    let place = place_2(membership)?;
    let parent = Path::new(place).parent().unwrap_or(Path::new(""));
    let base = root.join(parent).join(own);
    let offered = fs::read_to_string(root.join(parent).join("cgroup.subtree_control")).ok()?;
    if !offered.split_whitespace().any(|name| name == controller.name()) {
        return None;
    }
    let base = usable(&base)?;
    fs::write(base.join("cgroup.subtree_control"), format!("+{}", controller.name())).ok()?;
    Some(base)
}

fn place_1(membership: &str, controller: Controller) -> Option<&str> {
    let line = membership.lines().find(|line| {
        line.split(':').nth(1).is_some_and(|names| names.split(',').any(|name| name == controller.name()))
    })?;
    Some(line.splitn(3, ':').nth(2)?.trim_start_matches('/'))
}

fn place_2(membership: &str) -> Option<&str> {
    Some(membership.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/'))
}

fn own_group(root: &Path, membership: &str, controller: Controller, unified: bool) -> Option<PathBuf> {
    let group = if unified {
        root.join(place_2(membership)?)
    } else {
        root.join(controller.name()).join(place_1(membership, controller)?)
    };
    Some(group.join("cgroup.procs"))
}

fn usable(path: &Path) -> Option<PathBuf> {
    fs::create_dir_all(path).ok()?;
    Some(path.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UID: &str = "01a1e233-4aef-7561-bb2d-a701ead51482";

    fn container(limits: &serde_json::Value) -> Container {
        let container = json!({ "name": "main", "image": "host", "resources": { "limits": limits } });
        serde_json::from_value(container).expect("a container")
    }

    /// What the kernel makes by itself in a new group.
    fn group(base: &Path) -> PathBuf {
        let group = base.join(format!("{UID}-main"));
        fs::create_dir_all(&group).expect("a directory");
        fs::write(group.join("cgroup.procs"), "").expect("a file");
        group
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).expect("the file was written")
    }

    #[test]
    fn version_2_limits_are_beside_us_and_kill_a_container_as_one() {
        let root = tempfile::tempdir().expect("a directory");
        let slice = root.path().join("user.slice/app.slice");
        fs::create_dir_all(slice.join("run-1.scope")).expect("a directory");
        fs::write(slice.join("cgroup.subtree_control"), "cpu memory pids\n").expect("a file");
        let groups = Groups::find_in(root.path(), "0::/user.slice/app.slice/run-1.scope\n", "orrery-x");
        groups.announce();
        assert_eq!(text(&slice.join("run-1.scope/cgroup.procs")), std::process::id().to_string());
        let group = group(&slice.join("orrery-x"));
        let (joins, unenforced) = groups.make(UID, &container(&json!({ "cpu": "1500m", "memory": "64Mi" })));
        assert_eq!((joins.len(), unenforced), (3, Vec::new()));
        assert_eq!(text(&group.join("cpu.max")), "150000 100000");
        assert_eq!(text(&group.join("memory.max")), (64 * 1024 * 1024).to_string());
        assert_eq!(text(&group.join("memory.oom.group")), "1");
        assert_eq!(text(&group.join("pids.max")), MOST_PROCESSES);
        fs::write(group.join("memory.events"), "low 0\noom 1\noom_kill 1\n").expect("a file");
        assert!(groups.was_out_of_memory(UID, "main") && !groups.was_out_of_memory(UID, "other"));
    }

    #[test]
    fn a_limit_without_its_controller_is_named() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(root.path().join("scope")).expect("a directory");
        fs::write(root.path().join("cgroup.subtree_control"), "pids\n").expect("a file");
        let groups = Groups::find_in(root.path(), "0::/scope\n", "orrery-x");
        group(&root.path().join("orrery-x"));
        let limits = json!({ "cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Gi" });
        let (joins, unenforced) = groups.make(UID, &container(&limits));
        assert_eq!((joins.len(), unenforced), (1, vec!["ephemeral-storage".into(), "cpu".into(), "memory".into()]));
    }

    #[test]
    fn version_1_has_a_tree_for_each() {
        let root = tempfile::tempdir().expect("a directory");
        let groups = Groups::find_in(root.path(), "4:memory:/a\n3:cpu,cpuacct:/b\n0::/\n", "orrery-x");
        fs::create_dir_all(root.path().join("cpu/b")).expect("a directory");
        groups.announce();
        assert_eq!(text(&root.path().join("cpu/b/cgroup.procs")), std::process::id().to_string());
        let (memory, cpu) = (group(&root.path().join("memory/a/orrery-x")), group(&root.path().join("cpu/b/orrery-x")));
        let (joins, unenforced) = groups.make(UID, &container(&json!({ "cpu": "250m", "memory": "1Gi" })));
        assert_eq!((joins.len(), unenforced), (2, Vec::new()));
        assert_eq!(text(&cpu.join("cpu.cfs_quota_us")), "25000");
        assert_eq!(text(&memory.join("memory.limit_in_bytes")), (1024 * 1024 * 1024).to_string());
    }
}
