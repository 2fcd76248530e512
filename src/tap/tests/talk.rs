//! Conversations made at random: a model of how servers answer, in RESP2 and RESP3.
//!
//! Owns the model. Must not know the tap. The tests draw from it.
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What both ends say, and which command each reply answers.
#[derive(Default)]
pub struct Talk {
    pub requests: Vec<u8>,
    pub replies: Vec<u8>,
    /// A reply, in order: its command's number, or none for what comes unasked; and whether it is the last of it.
    pub answers: Vec<(Option<u64>, bool)>,
    commands: u64,
    /// Subscribed channels and patterns.
    subscribed: [u64; 2],
    resp3: bool,
    off: bool,
    skip: bool,
}

impl Talk {
    /// A conversation of these steps.
    pub fn draw(steps: &[u8], seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut talk = Self {
            resp3: random.random(),
            ..Self::default()
        };
        for step in steps {
            talk.step(*step, &mut random);
        }
        talk
    }

    fn step(&mut self, step: u8, random: &mut Xoshiro256PlusPlus) {
        let listening = !self.resp3 && self.subscribed.iter().any(|n| *n > 0);
        match step % 12 {
            0 | 1 => self.subscribe(random),
            2 => self.unsubscribe(random),
            3 if self.resp3 || listening => {
                let n = random.random_range(0..3);
                self.unasked("message", n);
            }
            // A server that listens in RESP2 takes nothing but PING beside subscriptions.
            _ if listening => {
                self.ask(&["PING"]);
                self.answer(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", true);
            }
            4 => self.reply_mode(random),
            5 => self.requests.extend_from_slice(b"\r\n*0\r\n"),
            6 => {
                self.requests.extend_from_slice(b"ECHO \"a b\"\r\n");
                self.commands += 1;
                self.answer(b"$3\r\na b\r\n", true);
            }
            7 => {
                self.ask(&["MULTI"]);
                self.answer(b"+OK\r\n", true);
                self.ask(&["GET", "k"]);
                self.answer(b"+QUEUED\r\n", true);
                self.ask(&["EXEC"]);
                self.answer(b"*1\r\n$7\r\nmessage\r\n", true);
            }
            _ => {
                let long = "x".repeat(random.random_range(0..300));
                self.ask(&["SET", "fp:lock:0", &long, "\r\n*1\r\n"]);
                let mut value = Vec::new();
                draw_value(&mut value, random, 0);
                self.answer(&value, true);
            }
        }
    }

    fn ask(&mut self, words: &[&str]) {
        let out = &mut self.requests;
        out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.commands += 1;
    }

    /// The answer to the last command, unless it asked for none.
    fn answer(&mut self, bytes: &[u8], last: bool) {
        if self.off || (last && std::mem::take(&mut self.skip)) {
            return;
        }
        self.replies.extend_from_slice(bytes);
        self.answers.push((Some(self.commands), last));
    }

    fn unasked(&mut self, what: &str, n: u64) {
        let kind = if self.resp3 { '>' } else { '*' };
        let text = format!(
            "{kind}3\r\n${}\r\n{what}\r\n$1\r\nc\r\n:{n}\r\n",
            what.len()
        );
        self.replies.extend_from_slice(text.as_bytes());
        self.answers.push((None, false));
    }

    fn confirm(&mut self, what: &str, last: bool) {
        let kind = if self.resp3 { '>' } else { '*' };
        let n: u64 = self.subscribed.iter().sum();
        let text = format!(
            "{kind}3\r\n${}\r\n{what}\r\n$1\r\nc\r\n:{n}\r\n",
            what.len()
        );
        self.replies.extend_from_slice(text.as_bytes());
        self.answers.push((Some(self.commands), last));
    }

    fn quiet(&self) -> bool {
        self.off || self.skip
    }

    fn subscribe(&mut self, random: &mut Xoshiro256PlusPlus) {
        if self.quiet() {
            return;
        }
        let class = random.random_range(0..2);
        let name = ["subscribe", "PSUBSCRIBE"][class];
        let channels = ["a", "b", "c"];
        let n = random.random_range(1..=3);
        let mut words = vec![name];
        words.extend(&channels[..n]);
        self.ask(&words);
        // All are new or none is: the model has one set a kind.
        let fresh = self.subscribed[class] == 0;
        for i in 1..=n {
            if fresh {
                self.subscribed[class] += 1;
            }
            if self.resp3 && random.random_range(0..4) == 0 {
                self.unasked("message", 0);
            }
            self.confirm(&name.to_ascii_lowercase(), i == n);
        }
    }

    fn unsubscribe(&mut self, random: &mut Xoshiro256PlusPlus) {
        if self.quiet() {
            return;
        }
        let class = random.random_range(0..2);
        let name = ["UNSUBSCRIBE", "punsubscribe"][class];
        self.ask(&[name]);
        let n = self.subscribed[class].max(1);
        for i in 1..=n {
            self.subscribed[class] = self.subscribed[class].saturating_sub(1);
            self.confirm(&name.to_ascii_lowercase(), i == n);
        }
    }

    fn reply_mode(&mut self, random: &mut Xoshiro256PlusPlus) {
        match random.random_range(0..3) {
            0 => {
                self.ask(&["CLIENT", "REPLY", "OFF"]);
                (self.off, self.skip) = (true, false);
            }
            1 => {
                self.ask(&["client", "reply", "on"]);
                (self.off, self.skip) = (false, false);
                self.answer(b"+OK\r\n", true);
            }
            _ => {
                self.ask(&["CLIENT", "REPLY", "SKIP"]);
                self.skip = !self.off;
            }
        }
    }
}

/// A value of any type, some levels deep.
fn draw_value(out: &mut Vec<u8>, random: &mut Xoshiro256PlusPlus, depth: u32) {
    let kinds = if depth < 3 { 13 } else { 9 };
    let push = |out: &mut Vec<u8>, text: &str| out.extend_from_slice(text.as_bytes());
    match random.random_range(0..kinds) {
        0 => push(out, "+message\r\n"),
        1 => push(out, "-ERR subscribe\r\n"),
        2 => push(out, &format!(":{}\r\n", random.random_range(-9..9))),
        3 => push(out, "$-1\r\n"),
        4 => push(out, "_\r\n"),
        5 => push(out, "#f\r\n"),
        6 => push(out, ",-1.5e3\r\n"),
        7 => push(out, "=9\r\ntxt:a\r\nbc\r\n"),
        8 => {
            let length = random.random_range(0..200_usize);
            push(out, &format!("${length}\r\n"));
            out.extend((0..length).map(|_| b"\r\n*$a"[random.random_range(0..5)]));
            push(out, "\r\n");
        }
        kind => {
            let n = random.random_range(0..4_usize);
            let (head, values) = match kind {
                9 => (b'*', n),
                10 => (b'~', n),
                11 => (b'%', 2 * n),
                _ => (b'|', 2 * n + 1),
            };
            push(out, &format!("{}{n}\r\n", head as char));
            for _ in 0..values {
                draw_value(out, random, depth + 1);
            }
        }
    }
}

/// Cuts bytes into pieces by a list of lengths, used again and again.
pub fn pieces<'a>(bytes: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    let mut cuts = cuts.iter().cycle();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = (*cuts.next()?).clamp(1, rest.len());
        let (piece, more) = rest.split_at(cut);
        rest = more;
        Some(piece)
    })
}
