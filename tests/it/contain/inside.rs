//! inside
