//! From a container of the manifest to what a driver starts. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};

use crate::driver::{Confinement, ContainerSpec, Input, Mount, Root};
use crate::environment::expand;
use crate::images::{Image, Imported};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Capabilities by number, as `capabilities(7)` has them.
const CAPABILITIES: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What a container has unless it says otherwise: what container engines give.
const DEFAULT_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// What is asked of a Pod that this node does not offer, in words that name the field.
pub fn refusal(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let flag = |set: Option<bool>, field: &str| {
        (set == Some(true)).then(|| format!("spec.{field}: Pods of this node always have their own; remove the field"))
    };
    flag(spec.host_network, "hostNetwork")
        .or_else(|| flag(spec.host_pid, "hostPID"))
        .or_else(|| flag(spec.host_ipc, "hostIPC"))
}

/// Who a container runs as.
pub fn user(pod: &Pod, container: &Container, image: &Image) -> Result<(u32, u32), String> {
    let (of_pod, own) = contexts(pod, container);
    let image_user = match image {
        Image::Imported(Imported { user, .. }) => *user,
        Image::Host => None,
    };
    let number =
        |value: i64, field: &str| u32::try_from(value).map_err(|_| format!("{field}: {value} is not a user id"));
    let uid = match own.run_as_user.or(of_pod.run_as_user) {
        Some(value) => number(value, "securityContext.runAsUser")?,
        None => image_user.map_or(0, |(uid, _)| uid),
    };
    let gid = match own.run_as_group.or(of_pod.run_as_group) {
        Some(value) => number(value, "securityContext.runAsGroup")?,
        None => image_user.filter(|(of_image, _)| *of_image == uid).map_or(0, |(_, gid)| gid),
    };
    if uid == 0 && own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) {
        return Err(format!(
            "container has runAsNonRoot and image will run as root (container: {}): set securityContext.runAsUser",
            container.name
        ));
    }
    Ok((uid, gid))
}

fn contexts(pod: &Pod, container: &Container) -> (PodSecurityContext, SecurityContext) {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
    (of_pod, container.security_context.clone().unwrap_or_default())
}

/// Builds what the driver starts. The error names the field.
pub fn container(
    pod: &Pod,
    container: &Container,
    attempt: u32,
    image: &Image,
    environment: Vec<(String, String)>,
    hidden: &[PathBuf],
) -> Result<ContainerSpec, String> {
    let (of_pod, own) = contexts(pod, container);
    let (user, group) = user(pod, container, image)?;
    let environment = complete(pod, environment, image, user);
    let known: BTreeMap<String, String> = environment.iter().cloned().collect();
    let imported = match image {
        Image::Imported(imported) => imported.clone(),
        Image::Host => Imported::default(),
    };
    let words = |words: &[String]| -> Vec<String> { words.iter().map(|word| expand(word, &known)).collect() };
    let mut command = match &container.command {
        Some(command) => words(command),
        None => imported.entrypoint.clone(),
    };
    match (&container.args, &container.command) {
        (Some(arguments), _) => command.extend(words(arguments)),
        (None, None) => command.extend(imported.arguments.clone()),
        (None, Some(_)) => {}
    }
    if command.is_empty() {
        return Err(format!(
            "container {}: image {} has no command of its own here; give spec.containers[].command",
            container.name,
            container.image.as_deref().unwrap_or_default()
        ));
    }
    let fs_group = of_pod.fs_group.and_then(|group| u32::try_from(group).ok());
    let supplemental = of_pod.supplemental_groups.unwrap_or_default();
    let mut groups: Vec<u32> = supplemental.iter().filter_map(|group| u32::try_from(*group).ok()).collect();
    groups.extend(fs_group);
    let profile =
        own.seccomp_profile.as_ref().or(of_pod.seccomp_profile.as_ref()).map(|profile| profile.type_.as_str());
    if profile == Some("Localhost") {
        return Err("securityContext.seccompProfile: only RuntimeDefault and Unconfined are known here".to_owned());
    }
    Ok(ContainerSpec {
        name: container.name.clone(),
        attempt,
        root: match image {
            Image::Host => Root::Host { hidden: hidden.to_vec() },
            Image::Imported(imported) => Root::Image(imported.id.clone()),
        },
        read_only_root: own.read_only_root_filesystem == Some(true),
        mounts: mounts(container, &known)?,
        command,
        working_directory: container
            .working_dir
            .clone()
            .filter(|directory| !directory.is_empty())
            .or(imported.working_directory)
            .unwrap_or_else(|| "/".to_owned()),
        environment,
        confinement: Confinement {
            user,
            group,
            groups,
            capabilities: capabilities(&own)?,
            filter: profile != Some("Unconfined"),
            no_new_privileges: own.allow_privilege_escalation == Some(false),
        },
        share_processes: pod.spec.as_ref().and_then(|spec| spec.share_process_namespace) == Some(true),
        termination_log: container
            .termination_message_path
            .clone()
            .unwrap_or_else(|| "/dev/termination-log".to_owned()),
        input: match (container.stdin, container.stdin_once) {
            (Some(true), Some(true)) => Input::Once,
            (Some(true), _) => Input::Open,
            _ => Input::None,
        },
        terminal: container.tty == Some(true),
        cgroups: 0,
    })
}

/// Adds what every container has: a search path, its host name, a home.
fn complete(pod: &Pod, declared: Vec<(String, String)>, image: &Image, user: u32) -> Vec<(String, String)> {
    let mut environment = vec![
        ("PATH".to_owned(), PATH.to_owned()),
        ("HOSTNAME".to_owned(), pod.metadata.name.clone().unwrap_or_default()),
        ("HOME".to_owned(), if user == 0 { "/root".to_owned() } else { "/".to_owned() }),
    ];
    let from_image = match image {
        Image::Imported(imported) => imported.environment.clone(),
        Image::Host => Vec::new(),
    };
    for (name, value) in from_image.into_iter().chain(declared) {
        environment.retain(|(existing, _)| *existing != name);
        environment.push((name, value));
    }
    environment
}

fn mounts(container: &Container, known: &BTreeMap<String, String>) -> Result<Vec<Mount>, String> {
    let mut mounts: Vec<Mount> = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let sub_path = match (&mount.sub_path, &mount.sub_path_expr) {
            (_, Some(expression)) if !expression.is_empty() => expand(expression, known),
            (path, _) => path.clone().unwrap_or_default(),
        };
        if sub_path.starts_with('/') || sub_path.split('/').any(|part| part == "..") {
            return Err(format!("volumeMounts[{}].subPath: {sub_path} must stay inside the volume", mount.name));
        }
        mounts.push(Mount {
            volume: mount.name.clone(),
            sub_path,
            path: mount.mount_path.clone(),
            read_only: mount.read_only == Some(true),
        });
    }
    // Outer mounts first, so that an inner one is not covered.
    mounts.sort_by_key(|mount| mount.path.split('/').filter(|part| !part.is_empty()).count());
    Ok(mounts)
}

fn capabilities(context: &SecurityContext) -> Result<u64, String> {
    if context.privileged == Some(true) {
        return Err("securityContext.privileged: this node runs no privileged container; remove the field".to_owned());
    }
    let bit = |name: &str| -> Result<u64, String> {
        let plain = name.strip_prefix("CAP_").unwrap_or(name);
        let number = CAPABILITIES.iter().position(|known| *known == plain);
        number.map(|number| 1 << number).ok_or_else(|| format!("securityContext.capabilities: {name} is not known"))
    };
    let all = (1 << CAPABILITIES.len()) - 1;
    let mut set = 0;
    for name in DEFAULT_CAPABILITIES {
        set |= bit(name)?;
    }
    let Some(changes) = &context.capabilities else { return Ok(set) };
    for name in changes.drop.iter().flatten() {
        set &= if name.eq_ignore_ascii_case("ALL") { 0 } else { !bit(name)? };
    }
    for name in changes.add.iter().flatten() {
        set |= if name.eq_ignore_ascii_case("ALL") { all } else { bit(name)? };
    }
    Ok(set)
}
