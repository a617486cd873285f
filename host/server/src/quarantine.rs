//! What is in quarantine, told to people; and controls that this process has sequenced by itself.

use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::ids::Tid;
use styx_protocol::quarantine::{Quarantined, Subject};

use crate::clock::now;
use crate::handle::Handle;

/// Transactions of the log that an operator has passed over, to be sequenced before anything is executed.
pub(crate) fn skipped(tids: &[u64]) -> Vec<Control> {
    let skip = |&tid: &u64| Quarantined {
        subject: Subject::Transaction(Tid(tid)),
        app: None,
        function: None,
        reason: "an operator started the server with --skip-tid".to_owned(),
        since: now(),
    };
    tids.iter().map(skip).map(Control::Quarantine).collect()
}

/// Has a control sequenced for which nobody waits.
pub(crate) fn sequence(handle: &Handle, control: Control) {
    let what = match &control {
        Control::Quarantine(Quarantined { subject, .. }) => subject.to_string(),
        _ => "a change".to_owned(),
    };
    let (sequenced, catalog) = (handle.control(control), handle.clone());
    let tell = async move {
        if let Err(abort) = sequenced.await {
            // Where it is in quarantine already, nothing need be said.
            let is_there = catalog.catalog().quarantine().iter().any(|known| known.subject.to_string() == what);
            if !is_there {
                tracing::warn!("{what} was not set aside: {}", abort.message);
            }
        }
    };
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(tell);
    }
}

/// Tells people what has come into quarantine, and what has left it.
pub(crate) fn tell(before: &Catalog, after: &Catalog) {
    let (before, after) = (before.quarantine(), after.quarantine());
    for Quarantined { subject, app, function, reason, .. } in
        after.iter().map(|one| &**one).filter(|one| before.get(&one.subject).is_none())
    {
        let (app, function) = (app.as_deref().unwrap_or("?"), function.as_deref().unwrap_or("?"));
        tracing::error!(
            code = "QUARANTINED",
            app,
            function,
            "needs attention: {subject} is set aside and is not executed: {reason}; `styx requests quarantine list` shows \
             it, `styx requests quarantine release` lets it run again"
        );
    }
    for released in before.iter().filter(|one| after.get(&one.subject).is_none()) {
        tracing::info!("{} is not in quarantine any more", released.subject);
    }
}
