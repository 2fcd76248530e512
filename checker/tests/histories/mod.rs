//! Random histories in JSON lines, for the tests that ask for a property of any history.
//!
//! Owns chance. Must not know what is asked.
use proptest::prelude::*;

/// Steps of one random client: (gap, what, how it ended), in ms.
pub type Steps = Vec<(u64, u8, u8)>;

/// A history of clients that acquire, extend, write and release as they like, right or wrong, with or without leases.
pub fn random(clients: &[Steps], leased: bool) -> String {
    let mut events: Vec<(u64, String)> = Vec::new();
    for (c, steps) in clients.iter().enumerate() {
        let mut now = 1;
        for (gap, what, end) in steps {
            let f = ["acquire", "acquire", "release", "extend"][*what as usize % 4];
            let (kind, error) = match end {
                0 => ("fail", ",\"error\":\"held\""),
                1 => ("info", ",\"error\":\"timeout\""),
                _ => ("ok", ""),
            };
            let key = if what / 4 == 0 { "a" } else { "b" };
            let mut line = |time: u64, kind: &str, error: &str| {
                let text = format!(
                    r#"{{"index":0,"time":{},"process":{c},"client":"c{c}","type":"{kind}","f":"{f}","key":"{key}"{error}}}"#,
                    time * 1_000_000
                );
                events.push((time, text));
            };
            now += gap + 1;
            line(now, "invoke", "");
            now += gap % 3;
            line(now, kind, error);
            if f == "acquire" && kind == "ok" && *what % 2 == 1 {
                let read = if *end > 4 { "read" } else { "write" };
                events.push((now, format!(
                    r#"{{"index":0,"time":{},"process":{c},"client":"c{c}","type":"ok","f":"{read}","key":"{key}","value":{{"version":{now}}}}}"#,
                    now * 1_000_000
                )));
            }
        }
    }
    events.sort_by_key(|e| e.0);
    let ttl = if leased { "20" } else { "null" };
    let mut text = format!(
        r#"{{"fencepost":1,"workload":"random","seed":0,"model":{{"ttl_ms":{ttl},"floor_ms":1.0,"promises_notice":true}}}}"#
    );
    for (_, line) in events {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Two or three clients with up to nine steps each.
pub fn clients() -> impl Strategy<Value = Vec<Steps>> {
    let steps = prop::collection::vec((0u64..12, 0u8..8, 0u8..8), 1..10);
    prop::collection::vec(steps, 2..4)
}
