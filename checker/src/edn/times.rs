//! Stamps and the order of the text: operations of one time follow each other as they stand.
//!
//! Owns that rule. Must not know what is stamped. A history from elsewhere stands in its real order, which a coarse clock shows
//! in part only: so each is a nanosecond behind the one above it, where its stamp is the same. With several clocks only the
//! stamps count, and so they do where they fall.

/// Gives each operation its time, in the order of the text.
#[derive(Debug)]
pub(super) struct Times {
    /// Several clocks stamped them.
    several: bool,
    /// The stamp of the last one, and the time that it got.
    last: Option<(u64, u64)>,
    same: u64,
    fell: u64,
}

impl Times {
    pub(super) fn new(several: bool) -> Self {
        Self {
            several,
            last: None,
            same: 0,
            fell: 0,
        }
    }

    /// The time of the next operation, whose stamp this is.
    pub(super) fn next(&mut self, stamp: u64) -> u64 {
        let time = match self.last {
            Some((last, _)) if stamp < last => {
                self.fell += 1;
                stamp
            }
            Some((last, time)) if !self.several => {
                self.same += u64::from(stamp == last);
                stamp.max(time.saturating_add(1))
            }
            _ => stamp,
        };
        self.last = Some((stamp, time));
        time
    }

    /// What was assumed, for whoever reads the verdict.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.same > 0 {
            notes.push(format!(
                "{} operations follow one of the same :time, as they stand",
                self.same
            ));
        }
        if self.fell > 0 {
            notes.push(format!(
                "times count, and not the order, where a :time is before the one above it: {} operations",
                self.fell
            ));
        }
        notes
    }
}
