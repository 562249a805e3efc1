//! A container's root file system, built in the container's own mount namespace.
//!
//! The root is an overlay: the image over a skeleton of directories that every program expects, and above both a layer
//! of the container's own on disk. Of the host image the directories that programs live in are overlays of their own in
//! it, because the kernel refuses an overlay over a tree with other mounts below it, and because a list of what may be
//! seen is safer than a list of what may not.
//!
//! The skeleton is in memory and made once for a Pod. Whatever else can be is put into the container's layer before it is
//! mounted: a file made through an overlay costs the disk several.

use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;

use super::sandbox::stage;
use super::wire::{ContainerSpec, Mount, Root, SandboxSpec};
use super::{During as _, Error};

/// Directories of the host that the host image shows. Everything else is empty, or not there.
const SHOWN: &[&str] = &["bin", "etc", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr"];
/// Directories that programs expect, made where the image has none.
const EXPECTED: &[&str] =
    &["dev", "etc", "home", "mnt", "proc", "root", "run", "srv", "sys", "var/cache", "var/lib", "var/log"];
/// Directories of the host image that a container's root can install into.
const INSTALLED_INTO: &[&str] = &["/usr/local/bin", "/usr/local/lib", "/usr/local/share"];
/// Device nodes a container gets.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// Files of the kernel that show or change more than the container.
const MASKED: &[&str] = &["kcore", "keys", "latency_stats", "sched_debug", "sysrq-trigger", "timer_list"];
/// Files in `/etc` that are the Pod's own.
const OWN_FILES: &[&str] = &["hosts", "hostname", "resolv.conf"];

/// Builds the root file system of a container whose directory is `home` and makes it this process's root.
///
/// The root is changed early and the old one let go last: in between every path means what it means to the container,
/// links included, and what comes from outside is reached through descriptors only.
pub fn enter(sandbox: &SandboxSpec, spec: &ContainerSpec, home: &str) -> Result<(), Error> {
    let old = File::options().read(true).custom_flags(libc::O_PATH).open("/").during("open the old root")?;
    let sources = Sources::open(sandbox, spec, home)?;
    let mut writable = show_image(sandbox, spec, home)?;
    writable.push(PathBuf::from("/"));
    nix::unistd::pivot_root(".", ".").during("change the root")?;
    std::env::set_current_dir("/").during("enter the new root")?;

    // There already, unless the image hides the skeleton.
    make_skeleton(Path::new("/"))?;
    kernel_views(&sources)?;
    devices(&sources)?;
    show_programs(&sources)?;
    show_termination_log(&sources, &spec.termination_log)?;
    if matches!(spec.root, Root::Host { .. }) && !writable.iter().any(|path| path == Path::new("/etc")) {
        show_own_files(&sources)?;
    }
    for (volume, source) in spec.mounts.iter().zip(&sources.volumes) {
        make_mount_point(source, Path::new(&volume.path))?;
    }
    make_directory(Path::new(&spec.working_directory))?;
    if spec.read_only_root {
        for directory in &writable {
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            mount(None::<&str>, directory, None::<&str>, flags, None::<&str>).during("make the root read-only")?;
        }
    }
    for (volume, source) in spec.mounts.iter().zip(&sources.volumes) {
        mount_volume(volume, source)?;
    }
    nix::unistd::fchdir(&old).during("step to the old root")?;
    umount2(".", MntFlags::MNT_DETACH).during("let go of the old root")?;
    std::env::set_current_dir("/").during("enter the new root")
}

/// What comes from outside, opened before the root is changed.
struct Sources {
    devices: Vec<File>,
    own_files: Vec<File>,
    programs: Vec<(String, File)>,
    termination_log: File,
    volumes: Vec<File>,
}

impl Sources {
    fn open(sandbox: &SandboxSpec, spec: &ContainerSpec, home: &str) -> Result<Self, Error> {
        let open = |path: String| File::options().read(true).custom_flags(libc::O_PATH).open(path);
        let shown = matches!(spec.root, Root::Host { .. }).then_some(&sandbox.programs);
        let programs = shown.into_iter().flat_map(|programs| programs.keys()).enumerate();
        let programs: Result<_, std::io::Error> = programs
            .map(|(number, target)| Ok((target.clone(), open(format!("{}/program-{number}", stage()))?)))
            .collect();
        Ok(Self {
            devices: DEVICES
                .iter()
                .map(|name| open(format!("/dev/{name}")))
                .collect::<Result<_, _>>()
                .during("open a device")?,
            own_files: OWN_FILES
                .iter()
                .map(|name| open(format!("{}/pod/etc/{name}", stage())))
                .collect::<Result<_, _>>()
                .during("open a file for /etc")?,
            programs: programs.during("open a program")?,
            termination_log: open(format!("{home}/termination-log")).during("open the termination log")?,
            volumes: spec.mounts.iter().map(open_volume).collect::<Result<_, _>>()?,
        })
    }
}

/// Makes the directories that every program expects, where they are not there.
pub fn make_skeleton(place: &Path) -> Result<(), Error> {
    for directory in EXPECTED {
        make_directory(&place.join(directory))?;
    }
    for directory in ["tmp", "var/tmp"] {
        let directory = place.join(directory);
        make_directory(&directory)?;
        let mode = fs::metadata(&directory).during("look at a temporary directory")?.permissions().mode();
        if mode & 0o7777 != 0o1777 {
            let open = Permissions::from_mode(0o1777);
            fs::set_permissions(&directory, open).during("open a temporary directory")?;
        }
    }
    if fs::symlink_metadata(place.join("var/run")).is_err() {
        symlink("/run", place.join("var/run")).during("link /var/run")?;
    }
    Ok(())
}

/// Makes what the host's root has in it: links as they are, and a place for each directory.
pub fn make_host_skeleton(place: &Path) -> Result<(), Error> {
    for name in SHOWN {
        let source = Path::new("/").join(name);
        let Ok(kind) = fs::symlink_metadata(&source) else { continue };
        if kind.is_symlink() {
            let target = fs::read_link(&source).during("read a link of the host's root")?;
            symlink(target, place.join(name)).during("link a directory of the host's root")?;
        } else if kind.is_dir() {
            make_directory(&place.join(name))?;
        }
    }
    Ok(())
}

/// Makes the image appear in one place, the same for every container as each has mounts of its own, and enters that.
/// Returns the mounts that can be written.
fn show_image(sandbox: &SandboxSpec, spec: &ContainerSpec, home: &str) -> Result<Vec<PathBuf>, Error> {
    let stage = stage();
    let root = format!("{stage}/root");
    match &spec.root {
        Root::Host { hidden } => {
            make_room(sandbox, spec, home)?;
            make_own_files(&layer(home, "etc"))?;
            overlay(&format!("{stage}/host:{stage}/skeleton"), home, "root", Path::new(&root))?;
            std::env::set_current_dir(&root).during("enter the root directory")?;
            let writable = show_host(home)?;
            hide(hidden)?;
            Ok(writable)
        }
        Root::Image(id) => {
            make_own_files(&layer(home, "root").join("etc"))?;
            let count = sandbox.images.get(id).map_or(0, Vec::len);
            let mut lower: Vec<String> = (0..count).map(|number| format!("{stage}/images/{id}/{number}")).collect();
            lower.push(format!("{stage}/skeleton"));
            overlay(&lower.join(":"), home, "root", Path::new(&root))?;
            std::env::set_current_dir(&root).during("enter the root directory")?;
            Ok(Vec::new())
        }
    }
}

/// Overlays what the host image shows. Returns the directories that can be written.
fn show_host(home: &str) -> Result<Vec<PathBuf>, Error> {
    let mut writable = Vec::new();
    for name in SHOWN {
        let source = Path::new("/").join(name);
        if !fs::symlink_metadata(&source).is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match overlay(&format!("/{name}"), home, name, Path::new(name)) {
            Ok(()) => writable.push(source),
            // A directory with other mounts below it cannot be overlaid in a user namespace: it is shown read-only.
            Err(_) => show_read_only(&source, Path::new(name))?,
        }
    }
    Ok(writable)
}

/// Where the container's own part of an overlay is on disk.
fn layer(home: &str, name: &str) -> PathBuf {
    PathBuf::from(format!("{home}/layers/{name}"))
}

/// Makes room in the host's directories, which belong to somebody who does not exist in the Pod, so that not even its
/// root can make anything there: what will be mounted on, and the directories that programs are installed into, are made
/// in the layer above before it is laid over the host's.
fn make_room(sandbox: &SandboxSpec, spec: &ContainerSpec, home: &str) -> Result<(), Error> {
    let mut rooms: Vec<(PathBuf, bool)> = INSTALLED_INTO.iter().map(|path| (PathBuf::from(path), true)).collect();
    rooms.push((PathBuf::from(&spec.working_directory), true));
    rooms.push((PathBuf::from(&spec.termination_log), false));
    rooms.extend(sandbox.programs.keys().map(|path| (PathBuf::from(path), false)));
    for volume in &spec.mounts {
        let mode = nix::sys::stat::fstat(&open_volume(volume)?).during("look at a volume")?.st_mode;
        rooms.push((PathBuf::from(&volume.path), mode & libc::S_IFMT == libc::S_IFDIR));
    }
    for (path, is_directory) in rooms {
        let Some((shown, below)) = upper_place(&path) else { continue };
        let place = layer(home, shown).join(below);
        if is_directory {
            make_directory(&place)?;
        } else {
            if let Some(parent) = place.parent() {
                make_directory(parent)?;
            }
            make_file(&place)?;
        }
    }
    Ok(())
}

/// Which shown directory of the host a path lies in, and where in it; none when the host has the path or does not show
/// it. Links of the host are followed, as they will be in the container.
fn upper_place(path: &Path) -> Option<(&'static str, PathBuf)> {
    let is_installed_into = INSTALLED_INTO.iter().any(|known| Path::new(known) == path);
    if path.exists() && !is_installed_into {
        return None;
    }
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    let resolved = fs::canonicalize(existing).ok()?.join(path.strip_prefix(existing).ok()?);
    let inside = resolved.strip_prefix("/").ok()?;
    let shown = SHOWN.iter().find(|shown| inside.starts_with(shown))?;
    let below = inside.strip_prefix(shown).ok()?;
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && !below.as_os_str().is_empty()).then(|| (*shown, below.to_owned()))
}

fn show_read_only(source: &Path, target: &Path) -> Result<(), Error> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(source), target, None::<&str>, flags, None::<&str>).during("bind a directory of the host")?;
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(None::<&str>, target, None::<&str>, flags, None::<&str>).during("make a directory of the host read-only")
}

fn overlay(lower: &str, home: &str, name: &str, target: &Path) -> Result<(), Error> {
    let (upper, work) = (layer(home, name), layer(home, &format!("{name}.work")));
    make_directory(&upper)?;
    make_directory(&work)?;
    let options = format!("lowerdir={lower},upperdir={},workdir={},userxattr", upper.display(), work.display());
    mount(Some("orrery"), target, Some("overlay"), MsFlags::MS_NODEV, Some(options.as_str()))
        .during("overlay the image")
}

/// Covers what must not be seen although it lies below something that is shown.
fn hide(hidden: &[PathBuf]) -> Result<(), Error> {
    for path in hidden {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let Some(Component::Normal(first)) = inside.components().next() else { continue };
        if !SHOWN.iter().any(|shown| first == *shown) || !inside.is_dir() {
            continue;
        }
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("hidden"), inside, Some("tmpfs"), flags, Some("mode=0000,size=4k")).during("hide a directory")?;
    }
    Ok(())
}

fn kernel_views(sources: &Sources) -> Result<(), Error> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).during("mount /proc")?;
    let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some("/proc/sys"), "/proc/sys", None::<&str>, bind, None::<&str>).during("bind /proc/sys")?;
    let read_only = flags | MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mount(None::<&str>, "/proc/sys", None::<&str>, read_only, None::<&str>).during("make /proc/sys read-only")?;
    for name in MASKED {
        let target = format!("/proc/{name}");
        if Path::new(&target).exists() {
            bind_file(&sources.devices[0], Path::new(&target)).during("mask a file of /proc")?;
        }
    }
    // Machines that are containers themselves may not let us have /sys; programs live without it.
    let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), flags | MsFlags::MS_RDONLY, None::<&str>);
    Ok(())
}

fn devices(sources: &Sources) -> Result<(), Error> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("dev"), "/dev", Some("tmpfs"), flags, Some("mode=0755,size=64k")).during("mount /dev")?;
    for (name, source) in DEVICES.iter().zip(&sources.devices) {
        let target = Path::new("/dev").join(name);
        make_file(&target)?;
        bind_file(source, &target).during("show a device")?;
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/dev/ptmx", "pts/ptmx"),
    ] {
        symlink(target, link).during("link a device")?;
    }
    make_directory(Path::new("/dev/pts"))?;
    mount(Some("devpts"), "/dev/pts", Some("devpts"), flags, Some("newinstance,ptmxmode=0666,mode=0620"))
        .during("mount /dev/pts")?;
    make_directory(Path::new("/dev/shm"))?;
    let private = flags | MsFlags::MS_NODEV;
    mount(Some("shm"), "/dev/shm", Some("tmpfs"), private, Some("mode=1777,size=64m")).during("mount /dev/shm")
}

/// `hosts`, `hostname` and `resolv.conf` as the Pod has them, over whatever the image has.
fn make_own_files(etc: &Path) -> Result<(), Error> {
    make_directory(etc)?;
    for name in OWN_FILES {
        let text = fs::read(format!("{}/pod/etc/{name}", stage())).during("read a file for /etc")?;
        let target = etc.join(name);
        fs::write(&target, text).during("write a file in /etc")?;
        fs::set_permissions(&target, Permissions::from_mode(0o644)).during("write a file in /etc")?;
    }
    Ok(())
}

/// The same where `/etc` is the host's own and has no layer of the container's: a machine that is a container itself has
/// mounts in it.
fn show_own_files(sources: &Sources) -> Result<(), Error> {
    for (name, source) in OWN_FILES.iter().zip(&sources.own_files) {
        bind_file(source, &Path::new("/etc").join(name)).during("show a file in /etc")?;
    }
    Ok(())
}

/// Programs of this machine, at the places where the platform's images have theirs. Shown, not copied: an agent's may
/// be large.
fn show_programs(sources: &Sources) -> Result<(), Error> {
    for (target, program) in &sources.programs {
        let target = Path::new(target);
        make_mount_point(program, target)?;
        bind_file(program, target).during("show a program")?;
        let flags =
            MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(None::<&str>, target, None::<&str>, flags, None::<&str>).during("make a program read-only")?;
    }
    Ok(())
}

fn show_termination_log(sources: &Sources, path: &str) -> Result<(), Error> {
    let target = Path::new(path);
    make_mount_point(&sources.termination_log, target)?;
    bind_file(&sources.termination_log, target).during("bind the termination log")
}

/// Opens what a mount shows. A link inside the volume never leads out of it.
fn open_volume(volume: &Mount) -> Result<File, Error> {
    let root = File::open(format!("{}/volumes/{}", stage(), volume.volume)).during("open a volume")?;
    if volume.sub_path.is_empty() {
        return Ok(root);
    }
    let how = |flags: OFlag| {
        let beneath = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(beneath)
    };
    if let Ok(found) = openat2(&root, volume.sub_path.as_str(), how(OFlag::O_PATH)) {
        return Ok(File::from(found));
    }
    // As the kubelet does: a part that is not there yet becomes a directory.
    let mut at = root;
    for part in Path::new(&volume.sub_path).components() {
        let Component::Normal(part) = part else { continue };
        match nix::sys::stat::mkdirat(at.as_fd(), part, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
            Err(error) => return Err(error).during("make a volume's subPath"),
        }
        let next = openat2(&at, part, how(OFlag::O_PATH | OFlag::O_DIRECTORY)).during("open a volume's subPath")?;
        at = File::from(next);
    }
    Ok(at)
}

fn mount_volume(volume: &Mount, source: &File) -> Result<(), Error> {
    let target = Path::new(&volume.path);
    // A volume below another volume: the outer one has just covered its mount point.
    make_mount_point(source, target)?;
    let path = format!("/proc/self/fd/{}", source.as_raw_fd());
    mount(Some(path.as_str()), target, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .during("mount a volume")?;
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    if volume.read_only {
        flags |= MsFlags::MS_RDONLY;
    }
    mount(None::<&str>, target, None::<&str>, flags, None::<&str>).during("set a volume's mount options")
}

fn make_mount_point(source: &File, target: &Path) -> Result<(), Error> {
    let mode = nix::sys::stat::fstat(source).during("look at what is mounted")?.st_mode;
    if mode & libc::S_IFMT == libc::S_IFDIR {
        return make_directory(target);
    }
    if let Some(parent) = target.parent() {
        make_directory(parent)?;
    }
    make_file(target)
}

fn bind_file(source: &File, target: &Path) -> nix::Result<()> {
    let source = format!("/proc/self/fd/{}", source.as_raw_fd());
    mount(Some(source.as_str()), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
}

/// Makes a directory that anybody can enter, whatever our umask.
fn make_directory(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_directory(parent)?;
    }
    fs::create_dir(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        .during("make a directory")
}

fn make_file(path: &Path) -> Result<(), Error> {
    if path.exists() {
        return Ok(());
    }
    File::create(path)
        .and_then(|file| file.set_permissions(Permissions::from_mode(0o644)))
        .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        .during("make a file to mount on")
}
