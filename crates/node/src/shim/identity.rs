//! Users inside the Pod, written into the maps of its user namespace.

use std::io;
use std::process::Command;

use nix::unistd::{Gid, Pid, Uid};

use super::wire::Identity;

/// Id under which we ourselves, as root, are known in the network's user namespace. Pods do not have it.
const OURSELVES: u32 = 0xffff_0000;

/// Writes the maps of a Pod's user namespace, a child of the holder's: the same ids, without ours.
pub fn write_nested_maps(pid: Pid, identity: &Identity) -> io::Result<()> {
    match identity {
        Identity::Range { count, .. } => {
            write(pid, "uid_map", &format!("0 0 {count}"))?;
            write(pid, "gid_map", &format!("0 0 {count}"))
        }
        Identity::Single { uid, gid } => {
            write(pid, "uid_map", &format!("{uid} 0 1"))?;
            write(pid, "setgroups", "deny")?;
            write(pid, "gid_map", &format!("{gid} 0 1"))
        }
        Identity::Subordinate { uids, gids } => {
            // One line for each of the parent's: the kernel takes no range that is made of two.
            write(pid, "uid_map", &format!("0 0 1\n1 1 {}", uids.1))?;
            write(pid, "gid_map", &format!("0 0 1\n1 1 {}", gids.1))
        }
        Identity::Own => Ok(()),
    }
}

/// Writes the maps of the network's user namespace.
pub fn write_holder_maps(pid: Pid, identity: &Identity, uid: u32, gid: u32) -> io::Result<()> {
    match identity {
        Identity::Range { base, count } => {
            // A Pod's shim starts as us and opens our directories before it becomes somebody else: so we need an id.
            write(pid, "uid_map", &format!("0 {base} {count}\n{OURSELVES} {uid} 1"))?;
            write(pid, "gid_map", &format!("0 {base} {count}\n{OURSELVES} {gid} 1"))
        }
        Identity::Single { .. } => write_maps(pid, &Identity::Single { uid: 0, gid: 0 }, uid, gid),
        Identity::Subordinate { .. } | Identity::Own => write_maps(pid, identity, uid, gid),
    }
}

/// Becomes root of the network's user namespace.
pub fn assume_root(identity: &Identity) -> nix::Result<()> {
    match identity {
        Identity::Single { .. } => assume(&Identity::Single { uid: 0, gid: 0 }),
        other => assume(other),
    }
}

/// Writes the maps of process `pid`, from outside its user namespace.
pub fn write_maps(pid: Pid, identity: &Identity, uid: u32, gid: u32) -> io::Result<()> {
    match identity {
        Identity::Range { base, count } => {
            write(pid, "uid_map", &format!("0 {base} {count}"))?;
            write(pid, "gid_map", &format!("0 {base} {count}"))
        }
        Identity::Single { uid: user, gid: group } => {
            write(pid, "uid_map", &format!("{user} {uid} 1"))?;
            // The kernel wants this before a user without privilege maps groups.
            write(pid, "setgroups", "deny")?;
            write(pid, "gid_map", &format!("{group} {gid} 1"))
        }
        Identity::Subordinate { uids, gids } => {
            helper("newuidmap", pid, uid, *uids)?;
            helper("newgidmap", pid, gid, *gids)
        }
        Identity::Own => Ok(()),
    }
}

/// Becomes the Pod's own root (or its only user).
pub fn assume(identity: &Identity) -> nix::Result<()> {
    let (uid, gid) = match identity {
        Identity::Single { uid, gid } => (*uid, *gid),
        _ => (0, 0),
    };
    if !matches!(identity, Identity::Single { .. }) {
        nix::unistd::setgroups(&[])?;
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    nix::unistd::setresgid(gid, gid, gid)?;
    nix::unistd::setresuid(uid, uid, uid)
}

fn write(pid: Pid, file: &str, text: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/{pid}/{file}"), text)
}

fn helper(program: &str, pid: Pid, own: u32, (first, count): (u32, u32)) -> io::Result<()> {
    let words = [0, own, 1, 1, first, count].map(|number| number.to_string());
    let output = Command::new(program).arg(pid.to_string()).args(words).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }
}
