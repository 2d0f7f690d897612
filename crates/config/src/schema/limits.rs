//! The ranges of numbers, for decoding and for the JSON Schema.

use std::{ops::RangeInclusive, time::Duration};

type Counts = RangeInclusive<u32>;
type Spans = RangeInclusive<Duration>;

pub(crate) const CONCURRENCY: Counts = 1..=10_000;
pub(crate) const RATE: Counts = 1..=1_000_000;
pub(crate) const LINKS: Counts = 1..=1_000_000;
pub(crate) const WORKERS: Counts = 1..=10_000;
pub(crate) const MILLISECONDS: Counts = 0..=60_000;
pub(crate) const DAYS: Counts = 1..=36_500;
pub(crate) const GENERATIONS: Counts = 10..=1_000_000;
pub(crate) const RESPONSE_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 30;
pub(crate) const PAYLOAD_BYTES: RangeInclusive<u64> = 1..=1 << 30;
pub(crate) const CONNECT_TIMEOUT: Spans = Duration::from_millis(100)..=Duration::from_secs(600);
pub(crate) const TIMEOUT: Spans = Duration::from_secs(1)..=DAY;
pub(crate) const KEEPALIVE: Spans = Duration::ZERO..=DAY;
pub(crate) const IDLE: Spans = Duration::ZERO..=Duration::from_secs(7 * 24 * 3600);
pub(crate) const DRAIN: Spans = Duration::ZERO..=Duration::from_secs(3600);
pub(crate) const FIRST_LIST_WAIT: Spans = Duration::ZERO..=Duration::from_secs(600);
pub(crate) const INTERVAL: Spans = Duration::from_millis(100)..=Duration::from_secs(3600);

const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) const PROFILE: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";
pub(crate) const PREFIX: &str = "^[a-z0-9]([a-z0-9-]|_(?!_|$)){0,31}$";
pub(crate) const META_PREFIX: &str = "^([A-Za-z0-9-]|_(?!_|$)){1,32}$";
pub(crate) const VARIABLE: &str = "^[^\\s=]+$";
pub(crate) const SCOPE: &str = "^(global|tenant:.+)$";
