//! An error with its causes on one line.
//!
//! Owns these words. Must not know whom they are told, nor what the error is of.

/// The error, then each cause that its own text does not end with already.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
