//! Which part of a campaign this process makes: `--shard 2/4`, or a Kubernetes Indexed Job's environment.
//!
//! Owns the split, which depends on the list of runs alone, so that each shard finds the same one without talking to
//! the others. Must not know what a run is: it is given costs.
use crate::report::suite::SHARDS_MAX;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The pod's index in a Kubernetes Indexed Job, from 0; Kubernetes sets it.
pub const INDEX: &str = "JOB_COMPLETION_INDEX";
/// How many pods there are; the manifest sets it beside `completions`.
pub const COUNT: &str = "JOB_COMPLETION_COUNT";

/// Part `number` (from 1) of `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u32,
    of: u32,
}

impl Shard {
    /// The only one.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Its number, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Of how many.
    pub fn of(self) -> u32 {
        self.of
    }

    /// What a Kubernetes Indexed Job's environment says; none where the index is not set.
    ///
    /// # Errors
    /// An index without a count, or what is no number.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let Some(index) = variable(INDEX) else {
            return Ok(None);
        };
        let count = variable(COUNT).ok_or_else(|| {
            format!("{INDEX} is set, and {COUNT} is not: it must say the number of completions")
        })?;
        let number = |name: &str, text: &str| {
            text.parse::<u32>()
                .map_err(|_| format!("{name} is `{text}`, which is no number"))
        };
        let (index, of) = (number(INDEX, &index)?, number(COUNT, &count)?);
        if of > SHARDS_MAX {
            return Err(format!("{COUNT} is {of}: more than {SHARDS_MAX} shards"));
        }
        if index >= of {
            return Err(format!(
                "{INDEX} is {index}, but {COUNT} is {of}: indexes count from 0"
            ));
        }
        Ok(Some(Self {
            number: index + 1,
            of,
        }))
    }

    /// Which of the things with these costs are this shard's, in their order. The dearest goes first, always to the
    /// shard that has least to do: the longest shard takes at most a third more than the best split would (Graham,
    /// 1969, for this rule).
    pub fn of_costs(self, costs: &[Duration]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(costs[i]), i));
        let mut loads = vec![Duration::ZERO; self.of as usize];
        let mut mine = Vec::new();
        for i in order {
            let lightest = (0..loads.len()).min_by_key(|&s| (loads[s], s)).unwrap_or(0);
            loads[lightest] += costs[i];
            if lightest + 1 == self.number as usize {
                mine.push(i);
            }
        }
        mine.sort_unstable();
        mine
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)));
        match parsed {
            Some((number, of)) if (1..=of).contains(&number) && of <= SHARDS_MAX => {
                Ok(Self { number, of })
            }
            Some((_, of)) if of > SHARDS_MAX => Err(format!("more than {SHARDS_MAX} shards")),
            Some((number, of)) => Err(format!(
                "there is no shard {number} of {of}: they count from 1"
            )),
            None => Err("expected a number of a number, such as 2/4".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_mistakes_are_told() {
        assert_eq!("2/4".parse(), Ok(Shard { number: 2, of: 4 }));
        for (text, why) in [
            ("0/4", "count from 1"),
            ("5/4", "no shard 5 of 4"),
            ("1/0", "no shard 1 of 0"),
            ("1/99999", "10000"),
            ("2", "such as 2/4"),
            ("a/b", "such as 2/4"),
            ("-1/4", "such as 2/4"),
        ] {
            let error = text.parse::<Shard>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_pod_of_an_indexed_job_counts_from_0() {
        let with = |index: Option<&str>, count: Option<&str>| {
            let (index, count) = (index.map(str::to_owned), count.map(str::to_owned));
            Shard::from_environment(move |name| match name {
                INDEX => index.clone(),
                COUNT => count.clone(),
                _ => None,
            })
        };
        assert_eq!(with(None, Some("4")), Ok(None));
        assert_eq!(with(Some("0"), Some("4")), Ok("1/4".parse().ok()));
        assert_eq!(with(Some("3"), Some("4")), Ok("4/4".parse().ok()));
        for (index, count, why) in [
            (Some("4"), Some("4"), "count from 0"),
            (Some("0"), None, COUNT),
            (Some("x"), Some("4"), "no number"),
        ] {
            let error = with(index, count).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn each_thing_is_in_exactly_one_shard_and_none_is_overloaded(
            costs in proptest::collection::vec(0_u64..60, 0..80), of in 1_u32..9,
        ) {
            let costs: Vec<Duration> = costs.into_iter().map(Duration::from_secs).collect();
            let shards: Vec<Vec<usize>> =
                (1..=of).map(|number| Shard { number, of }.of_costs(&costs)).collect();
            let mut all: Vec<usize> = shards.iter().flatten().copied().collect();
            all.sort_unstable();
            proptest::prop_assert_eq!(all, (0..costs.len()).collect::<Vec<_>>());
            let load = |s: &Vec<usize>| s.iter().map(|&i| costs[i]).sum::<Duration>();
            let longest = shards.iter().map(load).max().unwrap_or_default();
            let total: Duration = costs.iter().sum();
            let dearest = costs.iter().max().copied().unwrap_or_default();
            proptest::prop_assert!(longest <= total / of + dearest);
        }
    }
}
