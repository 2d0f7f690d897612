//! How a reload is recorded: where it changed something, or was refused.

use super::{Act, Audit, Kept};
use crate::{
    reload::ReloadRequest,
    report::{ReloadError, Report},
};

impl Audit {
    /// Records what came of a reload or a rollback.
    pub(crate) async fn reload(
        &self,
        request: &ReloadRequest,
        act: Act,
        outcome: Result<&Report, &ReloadError>,
    ) -> Kept {
        if request.dry_run {
            return Kept::OnDisk;
        }
        let cause = request.cause.as_str();
        match outcome {
            // An unchanged file may have brought values that were missing.
            Ok(report) if !report.changed && report.servers.changed.is_empty() => Kept::OnDisk,
            Ok(report) => {
                let servers = &report.servers;
                let detail = format!(
                    "by {cause}: {} added, {} changed, {} removed",
                    servers.added.len(),
                    servers.changed.len(),
                    servers.removed.len()
                );
                let act = act.under(Some(report.generation));
                self.done(act.detail(detail)).await
            }
            Err(error) => {
                self.refused(act.detail(format!("by {cause}")), None, error.code());
                Kept::OnDisk
            }
        }
    }
}
