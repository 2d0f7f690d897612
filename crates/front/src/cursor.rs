//! [`CursorKey`]: cursors that a client can hand back and not make up.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use genlock_config::Surface;
use genlock_mcp::RpcError;

/// How much of the seal a cursor carries, in bytes.
const SEAL: usize = 16;

/// Seals cursors: page, version of the catalog, surface.
pub(crate) struct CursorKey([u8; 32]);

impl CursorKey {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(blake3::derive_key("genlock 2026 list cursor", secret))
    }

    /// Makes the cursor of a page of the tools.
    pub(crate) fn seal(&self, page: usize, version: u64, surface: Surface) -> String {
        self.seal_of(&[surface as u8], page, version)
    }

    /// Makes the cursor of a page of a view; no two views have the same name.
    pub(crate) fn seal_of(&self, view: &[u8], page: usize, version: u64) -> String {
        let place = (page as u64).to_le_bytes();
        let mut bytes = [place, version.to_le_bytes()].concat();
        bytes.extend_from_slice(&self.mark(&bytes, view));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor of the tools back, as [`CursorKey::open_of`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn open(
        &self,
        cursor: &str,
        version: u64,
        surface: Surface,
    ) -> Result<usize, RpcError> {
        self.open_of(&[surface as u8], cursor, version)
    }

    /// Reads a cursor back.
    ///
    /// # Errors
    /// -32602 where it is not one of this gateway and this view, or the list has changed since.
    pub(crate) fn open_of(
        &self,
        view: &[u8],
        cursor: &str,
        version: u64,
    ) -> Result<usize, RpcError> {
        let invalid = || RpcError::invalid_params("invalid cursor");
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| invalid())?;
        let (place, mark) = bytes.split_at_checked(16).ok_or_else(invalid)?;
        let genuine: [u8; SEAL] = mark.try_into().map_err(|_| invalid())?;
        if blake3::Hash::from(widened(genuine))
            != blake3::Hash::from(widened(self.mark(place, view)))
        {
            return Err(invalid());
        }
        let number = |range| {
            place
                .get(range)
                .and_then(|bytes: &[u8]| bytes.try_into().ok())
                .map(u64::from_le_bytes)
        };
        match (number(0..8), number(8..16)) {
            (Some(page), Some(of)) if of == version => usize::try_from(page).map_err(|_| invalid()),
            (Some(_), Some(_)) => Err(RpcError::invalid_params(
                "the list changed: list again from the first page",
            )
            .with_data(&serde_json::json!({"reason": "cursor_stale"}))),
            _ => Err(invalid()),
        }
    }

    fn mark(&self, place: &[u8], view: &[u8]) -> [u8; SEAL] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(place).update(view);
        let mut mark = [0; SEAL];
        hasher.finalize_xof().fill(&mut mark);
        mark
    }
}

/// Fills a seal up to the length that is compared in constant time.
fn widened(seal: [u8; SEAL]) -> [u8; 32] {
    let mut wide = [0; 32];
    for (to, from) in wide.iter_mut().zip(seal) {
        *to = from;
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_page_on_its_view_until_the_tools_change() {
        let key = CursorKey::new(b"secret");
        let cursor = key.seal(3, 7, Surface::Flat);

        assert_eq!(key.open(&cursor, 7, Surface::Flat), Ok(3));
        let stale = key.open(&cursor, 8, Surface::Flat).unwrap_err();
        assert_eq!(
            stale.data.unwrap().as_bytes(),
            br#"{"reason":"cursor_stale"}"#
        );
        assert!(key.open(&cursor, 7, Surface::Both).is_err());
        assert!(
            CursorKey::new(b"other")
                .open(&cursor, 7, Surface::Flat)
                .is_err()
        );
        for made_up in ["", "AAAA", "!", &"A".repeat(43), &cursor[1..]] {
            assert!(key.open(made_up, 7, Surface::Flat).is_err(), "{made_up}");
        }
    }
}
