//! Addresses, read strictly: hosts, paths and queries.
//!
//! Owns what a request may name. Must not know what is there. A path is decoded once, and whatever could lead anywhere
//! else than down is no path.
use crate::report::runs::Query;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Longest query value that is looked at, in bytes.
const VALUE_MAX: usize = 1000;

/// Whether a `Host` (or an address's authority) is one that this server goes by: an IP address, `localhost`, or one of
/// `hosts`, each with any port. A page elsewhere can point a name of its own at this machine, but not such a one.
pub(super) fn host_is_ours(host: &str, hosts: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bracketed = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok()
        || bracketed.is_some_and(|n| n.parse::<Ipv6Addr>().is_ok())
        || hosts.iter().any(|h| name.eq_ignore_ascii_case(h))
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The list.
    List,
    /// A file or folder below the results; and whether the path ends in a slash, as a folder's must.
    Below(PathBuf, bool),
    /// Nowhere.
    Nowhere,
}

/// Reads the path of an address.
pub(super) fn place(path: &str) -> Place {
    if path == "/" {
        return Place::List;
    }
    let Some(below) = path.strip_prefix("/runs/") else {
        return Place::Nowhere;
    };
    let (below, folder) = match below.strip_suffix('/') {
        Some(below) => (below, true),
        None => (below, false),
    };
    let mut whole = PathBuf::new();
    for part in below.split('/') {
        let Some(bytes) = decode(part, false) else {
            return Place::Nowhere;
        };
        // A name that begins with a dot is `.`, `..`, or a file that is still being written.
        let tame = |b: &u8| !matches!(b, 0..=31 | b'/' | b'\\' | 127);
        if bytes.is_empty() || bytes[0] == b'.' || !bytes.iter().all(tame) {
            return Place::Nowhere;
        }
        whole.push(OsStr::from_bytes(&bytes));
    }
    Place::Below(whole, folder)
}

/// Reads a query; what cannot be read asks for nothing.
pub(super) fn query(text: &str) -> Query {
    let mut query = Query::default();
    for pair in text.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if value.len() > VALUE_MAX {
            continue;
        }
        let value = decode(value, true).unwrap_or_default();
        let value = String::from_utf8_lossy(&value).into_owned();
        match name {
            "q" => query.text = value,
            "verdict" => query.verdict = value,
            "workload" => query.workload = value,
            "seed" => value.trim().clone_into(&mut query.seed),
            "page" => query.page = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
    query
}

/// Percent-decoding, once; none: a `%` without two hexadecimal digits after it.
fn decode(text: &str, form: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let digit = |b: Option<u8>| char::from(b?).to_digit(16);
        match byte {
            b'%' => {
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if form => out.push(b' '),
            byte => out.push(byte),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_refused() {
        let ours = ["Box.Example".to_owned()];
        for host in [
            "127.0.0.1",
            "127.0.0.1:8320",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:8320",
            "localhost",
            "LOCALHOST:9",
            "box.example:1",
        ] {
            assert!(host_is_ours(host, &ours), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "box.example.evil",
            "::1",
            "[::1",
            "localhost:80:80",
            "localhost@evil.example",
            "0x7f000001",
            "127.1",
        ] {
            assert!(!host_is_ours(host, &ours), "{host}");
        }
    }

    #[test]
    fn only_what_leads_down_is_a_path() {
        let below = |p: &str, folder| Place::Below(PathBuf::from(p), folder);
        assert_eq!(place("/"), Place::List);
        assert_eq!(place("/runs/a/b%20c"), below("a/b c", false));
        assert_eq!(place("/runs/a/"), below("a", true));
        assert_eq!(place("/runs/%61"), below("a", false));
        for path in [
            "",
            "/runs",
            "/runs/",
            "/runs//a",
            "/runs/a//b",
            "/runs/..",
            "/runs/a/../b",
            "/runs/%2e%2e/a",
            "/runs/.%2E/a",
            "/runs/%2e",
            "/runs/a%2fb",
            "/runs/..%2f..%2fetc",
            "/runs/%5c",
            "/runs/a\\b",
            "/runs/a%00",
            "/runs/a%0a",
            "/runs/a%",
            "/runs/a%4",
            "/runs/a%zz",
            "/runs/%+1",
            "/runs/.latest-1",
            "/etc/passwd",
            "http://x/runs/a",
        ] {
            assert_eq!(place(path), Place::Nowhere, "{path}");
        }
        assert_eq!(place("/runs/%252e%252e"), below("%2e%2e", false), "once");
    }

    #[test]
    fn a_query_is_read_as_a_form_writes_it() {
        let q = query("q=paused+holder%2B&verdict=expected&workload=a%2Fb&seed=+7&page=3&x=y&q2=%");
        assert_eq!(q.text, "paused holder+");
        assert_eq!(
            (q.verdict.as_str(), q.workload.as_str()),
            ("expected", "a/b")
        );
        assert_eq!((q.seed.as_str(), q.page), ("7", 3));
        assert_eq!(query("page=-1&q=%zz"), Query::default());
        assert_eq!(query(&format!("q={}", "x".repeat(5000))), Query::default());
    }
}
