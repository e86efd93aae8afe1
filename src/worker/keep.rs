//! The keeper: what was paid for at the same moment is kept in one transaction, and nobody goes on before it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::store::{Asked, Store, StoreError};

/// The most questions whose cost and answers share a transaction.
const MOST: usize = 64;

/// Where what questions came to is handed in.
#[derive(Debug)]
pub(super) struct Keeper {
    inbox: Inbox,
}

#[derive(Debug)]
enum Inbox {
    /// Neighbours share a transaction.
    Shared(mpsc::Sender<Job>),
    /// Each has its own, within the caller's own task.
    #[cfg(test)]
    Own(Store, Arc<dyn Clock>),
}

#[derive(Debug)]
struct Job {
    asked: Asked,
    done: oneshot::Sender<Result<(), StoreError>>,
}

impl Keeper {
    /// Starts the task that keeps. It ends when the keeper is dropped and everything handed in is kept.
    pub(super) fn start(store: Store, clock: Arc<dyn Clock>) -> Self {
        let (inbox, mut jobs) = mpsc::channel::<Job>(MOST * 2);
        tokio::spawn(async move {
            let mut batch = Vec::with_capacity(MOST);
            while jobs.recv_many(&mut batch, MOST).await > 0 {
                let (asked, waiting): (Vec<Asked>, Vec<_>) = batch.drain(..).map(|job| (job.asked, job.done)).unzip();
                for (done, kept) in waiting.into_iter().zip(keep(&store, &asked, clock.as_ref()).await) {
                    // Nobody waits any more where the work was cut short; it is kept all the same.
                    let _ = done.send(kept);
                }
            }
        });
        Self { inbox: Inbox::Shared(inbox) }
    }

    /// Keeps each by itself, without a task of its own: for whoever steps through the caller's.
    #[cfg(test)]
    pub(super) const fn by_itself(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { inbox: Inbox::Own(store, clock) }
    }

    /// Keeps what a question came to.
    ///
    /// # Errors
    /// [`StoreError`] where it can't be kept.
    pub(super) async fn keep(&self, asked: Asked) -> Result<(), StoreError> {
        let gone = || StoreError::Unreachable("the worker is stopping".to_owned());
        #[allow(clippy::infallible_destructuring_match, reason = "unit tests know another form")]
        let inbox = match &self.inbox {
            Inbox::Shared(inbox) => inbox,
            #[cfg(test)]
            Inbox::Own(store, clock) => return store.keep_asked(&[asked], clock.now()).await,
        };
        let (done, kept) = oneshot::channel();
        inbox.send(Job { asked, done }).await.map_err(|_| gone())?;
        kept.await.map_err(|_| gone())?
    }
}

/// How long it is waited before what could not be kept for an outage is tried again, doubled each time, and how often. A connection
/// that was cut is there again at once; an answer that is lost is paid for twice.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const TRIES: u32 = 6;

async fn keep(store: &Store, asked: &[Asked], clock: &dyn Clock) -> Vec<Result<(), StoreError>> {
    let mut tries = 0;
    let kept = loop {
        let kept = store.keep_asked(asked, clock.now()).await;
        if tries == TRIES || !kept.as_ref().is_err_and(StoreError::is_outage) {
            break kept;
        }
        tokio::time::sleep(FIRST_WAIT * 2_u32.pow(tries)).await;
        tries += 1;
    };
    match kept {
        Ok(()) => vec![Ok(()); asked.len()],
        Err(error) if asked.len() == 1 || error.is_outage() => vec![Err(error); asked.len()],
        // One of them can't be kept: each by itself, so that it harms no sibling.
        Err(_) => {
            let mut kept = Vec::with_capacity(asked.len());
            for one in asked {
                kept.push(store.keep_asked(std::slice::from_ref(one), clock.now()).await);
            }
            kept
        }
    }
}
