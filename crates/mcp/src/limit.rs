//! [`ByteLimit`]: a largest size that can change while it is used.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A largest size, in bytes. A clone shares it.
#[derive(Debug, Clone)]
pub struct ByteLimit(Arc<AtomicUsize>);

impl ByteLimit {
    /// Begins with a limit.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Returns the limit of now.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the limit, for what begins from now on.
    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

impl From<usize> for ByteLimit {
    fn from(bytes: usize) -> Self {
        Self::new(bytes)
    }
}
