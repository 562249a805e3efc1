//! The memory that this program's own code takes.

use std::io;

/// Gives back the pages of the program's code. Most of what a start maps is never run again; what is run again the
/// kernel maps again, from its cache, without anybody noticing.
pub fn give_back() -> io::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let own = std::fs::read_link("/proc/self/exe")?;
    for (start, length) in code_of(&own.to_string_lossy(), &maps) {
        // SAFETY: nothing ever writes to these pages (they are mapped to be read and run only), so that the file still
        // has all of their contents; the range is one whole mapping as the kernel names it.
        if unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Start and length of the mappings that hold a program's code. Its data is not among them: pages that the start has
/// changed, such as addresses that were filled in, are in no file.
fn code_of(program: &str, maps: &str) -> Vec<(usize, usize)> {
    let mapping = |line: &str| {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        (rights == "r-xp" && line.ends_with(&format!(" {program}"))).then(|| Some((start, end.checked_sub(start)?)))?
    };
    maps.lines().filter_map(mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_own_code_is_given_back() {
        let maps = "\
            1000-2000 r--p 00000000 fe:00 1 /usr/bin/orrery\n\
            2000-5000 r-xp 00001000 fe:00 1                          /usr/bin/orrery\n\
            5000-6000 r--p 00004000 fe:00 1 /usr/bin/orrery\n\
            6000-7000 rw-p 00005000 fe:00 1 /usr/bin/orrery\n\
            8000-9000 r-xp 00000000 fe:00 2 /usr/lib/libc.so.6\n\
            a000-b000 r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(code_of("/usr/bin/orrery", maps), [(0x2000, 0x3000)]);
    }

    #[test]
    fn a_program_goes_on_after_it() {
        give_back().expect("this program's code can be mapped again");
        assert_eq!(code_of("/usr/bin/orrery", "nonsense"), []);
    }
}
