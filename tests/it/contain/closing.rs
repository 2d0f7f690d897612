//! closing
