//! Questions in flight: whoever asks what somebody in this process is asking already waits for that answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// What is being asked, by key.
#[derive(Debug)]
pub(super) struct InFlight<K: Eq + Hash, T> {
    asked: Mutex<HashMap<K, watch::Receiver<Option<T>>>>,
}

impl<K: Eq + Hash, T> Default for InFlight<K, T> {
    fn default() -> Self {
        Self { asked: Mutex::default() }
    }
}

/// Takes a question off the list when it is answered, or given up.
struct Leading<'a, K: Eq + Hash + Clone, T> {
    of: &'a InFlight<K, T>,
    key: K,
}

impl<K: Eq + Hash + Clone, T> Drop for Leading<'_, K, T> {
    fn drop(&mut self) {
        self.of.list().remove(&self.key);
    }
}

impl<K: Eq + Hash + Clone, T: Clone> InFlight<K, T> {
    /// The answer to the question of `key`: that of whoever is asking already, or what `ask` gives. Where the one that asks
    /// fails or is cut short, the next one asks.
    ///
    /// # Errors
    /// Those of `ask`.
    pub(super) async fn share<E>(&self, key: K, ask: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let answer = loop {
            match self.join(&key) {
                Err(answer) => break answer,
                Ok(mut answer) => {
                    if let Ok(answered) = answer.wait_for(Option::is_some).await
                        && let Some(answered) = answered.clone()
                    {
                        return Ok(answered);
                    }
                }
            }
        };
        let leading = Leading { of: self, key };
        let answered = ask.await?;
        answer.send_replace(Some(answered.clone()));
        drop(leading);
        Ok(answered)
    }

    /// The answer to wait for, or the place to leave it in where nobody is asking.
    fn join(&self, key: &K) -> Result<watch::Receiver<Option<T>>, watch::Sender<Option<T>>> {
        let mut asked = self.list();
        if let Some(answer) = asked.get(key) {
            return Ok(answer.clone());
        }
        let (sender, receiver) = watch::channel(None);
        asked.insert(key.clone(), receiver);
        Err(sender)
    }
}

impl<K: Eq + Hash, T> InFlight<K, T> {
    fn list(&self) -> MutexGuard<'_, HashMap<K, watch::Receiver<Option<T>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future;
    use tokio::sync::Barrier;

    use super::*;

    #[tokio::test]
    async fn many_that_ask_the_same_at_once_share_one_call() {
        let shared = InFlight::<&str, usize>::default();
        let calls = AtomicUsize::new(0);
        let ask = || async {
            tokio::task::yield_now().await;
            Ok::<_, ()>(calls.fetch_add(1, Ordering::SeqCst))
        };
        let answers = future::join_all((0..20).map(|_| shared.share("q", ask()))).await;
        assert_eq!((answers, calls.load(Ordering::SeqCst)), (vec![Ok(0); 20], 1));
        assert_eq!(shared.share("q", ask()).await, Ok(1), "what is answered is not in flight any more");
        assert_eq!(future::join(shared.share("a", ask()), shared.share("b", ask())).await, (Ok(2), Ok(3)));
        assert!(shared.list().is_empty());
    }

    #[tokio::test]
    async fn where_the_one_that_asks_fails_or_is_cut_short_the_next_one_asks() {
        let shared = InFlight::<&str, usize>::default();
        let barrier = Barrier::new(2);
        let failing = async {
            barrier.wait().await;
            Err("no")
        };
        let next = async {
            barrier.wait().await;
            shared.share("q", async { Ok::<_, &str>(7) }).await
        };
        let (failed, answered) = future::join(shared.share("q", failing), next).await;
        assert_eq!((failed, answered), (Err("no"), Ok(7)));

        let mut cut = Box::pin(shared.share("q", future::pending::<Result<usize, &str>>()));
        assert!(futures::poll!(&mut cut).is_pending());
        let mut waiting = Box::pin(shared.share("q", async { Ok::<_, &str>(9) }));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(cut);
        assert_eq!(waiting.await, Ok(9));
    }
}
