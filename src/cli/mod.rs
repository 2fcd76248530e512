//! Arguments to one typed command each; exit codes.
pub mod doctor;
