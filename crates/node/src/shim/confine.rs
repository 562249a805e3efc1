//! The last steps before a command runs: who it is, what it may do, which system calls it may make.

use std::collections::BTreeMap;

use nix::unistd::{Gid, Uid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::wire::Confinement;
use super::{During as _, Error, sys};

/// Highest capability that a kernel of today knows.
const LAST_CAPABILITY: u32 = 40;

/// Confines this process for good.
pub fn confine(confinement: &Confinement, keep_groups: bool) -> Result<(), Error> {
    for capability in 0..=LAST_CAPABILITY {
        if confinement.capabilities & (1 << capability) == 0 {
            // EINVAL: this kernel does not know the capability, so nobody can have it.
            let _ = sys::drop_from_bounding_set(capability);
        }
    }
    // The filter comes before the capabilities go: installing one needs a capability, or no_new_privs.
    if confinement.no_new_privileges {
        nix::sys::prctl::set_no_new_privs().during("set no_new_privs")?;
    }
    if confinement.filter {
        let program = filter().map_err(std::io::Error::other).during("build the system call filter")?;
        seccompiler::apply_filter(&program).map_err(std::io::Error::other).during("install the system call filter")?;
    }
    let user = Uid::from_raw(confinement.user);
    let group = Gid::from_raw(confinement.group);
    if !keep_groups {
        let groups: Vec<Gid> = confinement.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        nix::unistd::setgroups(&groups).during("set supplementary groups")?;
    }
    nix::sys::prctl::set_keepcaps(true).during("keep capabilities")?;
    nix::unistd::setresgid(group, group, group).during("set the group")?;
    nix::unistd::setresuid(user, user, user).during("set the user")?;
    // As Docker does: root gets the set, another user only after a set-user-id program.
    let own = if confinement.user == 0 { confinement.capabilities } else { 0 };
    sys::set_capabilities(own, own, own).during("set capabilities")?;
    for capability in (0..=LAST_CAPABILITY).filter(|capability| own & (1 << capability) != 0) {
        let _ = sys::raise_ambient(capability);
    }
    Ok(())
}

/// System calls that a container has no business with: they reach the kernel's own state, other processes' secrets, or
/// make new namespaces whose root would have every capability again.
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    // clone with any namespace flag. Its flags are its first argument on every platform we build for.
    let namespaces = [
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWUTS,
    ];
    let mut clone = Vec::new();
    for flag in namespaces {
        let bit = u64::from(flag.cast_unsigned());
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bit), bit)?;
        clone.push(SeccompRule::new(vec![condition])?);
    }
    rules.insert(libc::SYS_clone, clone);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()
}

/// clone3 hides its flags behind a pointer, so it must look unknown: the C library then falls back to clone.
pub fn refuse_clone3() -> Result<(), Error> {
    let program: Result<BpfProgram, seccompiler::BackendError> = (|| {
        let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
        let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        SeccompFilter::new(rules, SeccompAction::Allow, unknown, architecture)?.try_into()
    })();
    let program = program.map_err(std::io::Error::other).during("build the clone3 filter")?;
    seccompiler::apply_filter(&program).map_err(std::io::Error::other).during("install the clone3 filter")
}
