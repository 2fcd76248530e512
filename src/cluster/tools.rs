//! Where the local backend's programs and ports come from.
//!
//! Owns the search for binaries and for free ports. Must not start anything.
use super::error::ClusterError;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

/// The server's argv: the one given, else `redis-server` or `valkey-server` from PATH.
pub(super) fn server(command: &[String]) -> Result<Vec<String>, ClusterError> {
    let names: Vec<&str> = match command.first() {
        Some(program) => vec![program],
        None => vec!["redis-server", "valkey-server"],
    };
    let found = names.iter().find_map(|name| on_path(name));
    let program = found.ok_or_else(|| ClusterError::Program {
        program: names.join(" or "),
        looked: "PATH".to_owned(),
    })?;
    let rest = command.iter().skip(1).cloned();
    Ok(std::iter::once(program.to_string_lossy().into_owned())
        .chain(rest)
        .collect())
}

/// `toxiproxy-server`: `FENCEPOST_TOXIPROXY`, else PATH, else `tools/` in a folder above this executable
/// (`target/tools`, where `make setup` puts it).
pub fn toxiproxy() -> Result<PathBuf, ClusterError> {
    const NAME: &str = "toxiproxy-server";
    if let Some(named) = std::env::var_os("FENCEPOST_TOXIPROXY").filter(|n| !n.is_empty()) {
        let named = PathBuf::from(named);
        return if is_program(&named) {
            Ok(named)
        } else {
            Err(ClusterError::Program {
                program: NAME.to_owned(),
                looked: format!("FENCEPOST_TOXIPROXY, which names {}", named.display()),
            })
        };
    }
    let beside = || {
        let exe = std::env::current_exe().ok()?;
        exe.ancestors()
            .map(|dir| dir.join("tools").join(NAME))
            .find(|p| is_program(p))
    };
    on_path(NAME)
        .or_else(beside)
        .ok_or_else(|| ClusterError::Program {
            program: NAME.to_owned(),
            looked: "FENCEPOST_TOXIPROXY, PATH and target/tools".to_owned(),
        })
}

fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|p| is_program(p));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// A port of 127.0.0.1 on which nothing listens, below the range from which the kernel takes ports for outgoing
/// connections: a server that is down for a while must find its port free when it comes back.
pub(super) fn free_port(what: &str) -> Result<u16, ClusterError> {
    let low = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(32_768_u16);
    let range = if low > 12_000 {
        10_000..low
    } else {
        20_000..32_768
    };
    let mut last = io::Error::other("no try");
    let mut random = StdRng::from_os_rng();
    for _ in 0..200 {
        let port = random.random_range(range.clone());
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(e) => last = e,
        }
    }
    Err(ClusterError::Port {
        what: what.to_owned(),
        why: format!("200 tries in {range:?}, the last: {last}"),
    })
}

/// How often a server gets another port when somebody else was faster.
const PORT_TRIES: usize = 5;

/// After `tries` ports that somebody else took first, the last of them at `address`: whether there is to be another.
pub(super) fn next_try(what: &str, address: &str, tries: usize) -> Result<(), ClusterError> {
    if tries < PORT_TRIES {
        return Ok(());
    }
    Err(ClusterError::Port {
        what: what.to_owned(),
        why: format!("{tries} were free and then in use, the last of them {address}"),
    })
}

/// The last `lines` lines of a log, each after a line break and two spaces, without control characters.
pub(super) fn tail(log: &str, lines: usize) -> String {
    let all: Vec<&str> = log.lines().filter(|l| !l.trim().is_empty()).collect();
    let clean = |l: &&str| -> String {
        let visible = l.chars().filter(|c| !c.is_control()).take(300);
        std::iter::once('\n')
            .chain("  ".chars())
            .chain(visible)
            .collect()
    };
    all.iter()
        .skip(all.len().saturating_sub(lines))
        .map(clean)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As everywhere that a port is asked for: between the two calls it may become somebody else's. In a test program
    /// that also starts others it does: a fork has the first listener until its exec.
    #[test]
    fn a_free_port_can_be_listened_on() {
        let mut tries = 0;
        loop {
            tries += 1;
            let port = free_port("test").expect("a port");
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(_) => return,
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                    next_try("test", &format!("127.0.0.1:{port}"), tries).expect("a free port");
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let e = server(&["no-such-server".to_owned()]).expect_err("not there");
        assert!(e.to_string().contains("no-such-server"), "{e}");
        assert!(e.is_missing());
    }

    #[test]
    fn a_tail_is_short_and_tame() {
        assert_eq!(tail("a\n\nb\x1b[31m\nc\n", 2), "\n  b[31m\n  c");
        assert_eq!(tail("", 3), "");
    }
}
