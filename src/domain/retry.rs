//! Back-off: how long to wait before the next try.

use super::time::Micros;

/// Exponential back-off between two bounds, spread by jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failed try, before jitter.
    pub first: Micros,
    /// The longest wait, before jitter.
    pub longest: Micros,
}

impl Backoff {
    /// The wait after `attempts` failed tries (from 1). `jitter` on 0..1 spreads it over the upper half of its length, so
    /// that what failed together does not come back together.
    pub fn after(&self, attempts: u32, jitter: f64) -> Micros {
        let doublings = attempts.saturating_sub(1).min(40);
        let full = self.first.get().saturating_mul(1_i64 << doublings).min(self.longest.get());
        let half = full / 2;
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a wait needs no exactness")]
        let spread = ((full - half) as f64 * jitter.clamp(0.0, 1.0)) as i64;
        Micros::new(half + spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff { first: Micros::seconds(10), longest: Micros::seconds(60) };
        let full: Vec<i64> = (1..6).map(|n| backoff.after(n, 1.0).get() / 1_000_000).collect();
        assert_eq!(full, [10, 20, 40, 60, 60]);
        assert_eq!(backoff.after(1, 0.0), Micros::seconds(5));
        assert_eq!(backoff.after(u32::MAX, 1.0), Micros::seconds(60));
    }
}
