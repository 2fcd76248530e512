//! Why two tokens are out of order.
//!
//! Owns the wording. Must not know how it was found.
use super::{exact, let_be};
use crate::facts::Facts;

/// `first` was granted before `second`, but its token is not the smaller one.
pub(crate) fn fencing(f: &Facts, first: u32, second: u32) -> Vec<String> {
    let (a, b) = (f.section(first), f.section(second));
    let mut steps = vec![
        format!("{} Its token is {}.", let_be(f, "A", first), a.token),
        format!("{} Its token is {}.", let_be(f, "B", second), b.token),
    ];
    if a.token == b.token {
        steps
            .push("Then a resource cannot tell the one from the other by their tokens.".to_owned());
        steps.push(
            "But each grant is to have a token of its own: the fence lets the one pass for the other.".to_owned(),
        );
    } else {
        steps.push(format!(
            "Then A was granted before B in every order: it was answered at {}, before B was invoked at {}.",
            exact(a.ret),
            exact(b.inv)
        ));
        steps.push(format!(
            "But {} > {}: a resource that has seen A's token refuses B, the rightful holder, and one that has not \
             lets A pass after B.",
            a.token, b.token
        ));
    }
    steps
}
