//! Randomness: the one place that draws it. Everything else is handed an [`Entropy`], so that tests can seed it.

use std::sync::Mutex;

use crate::domain::span::hex;

/// Draws random bytes.
pub trait Entropy: Send + Sync + std::fmt::Debug {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);

    /// A fresh opaque id: 21 letters and digits, 125 random bits. No dashes: an id that begins with one is an option to a
    /// command line.
    fn id(&self) -> String {
        const ALPHABET: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let mut bytes = [0; 21];
        self.fill(&mut bytes);
        bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 62)])).collect()
    }

    /// `N` random bytes as hexadecimal text.
    fn hex(&self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        hex(&bytes)
    }

    /// A number on 0..1, for jitter.
    fn unit(&self) -> f64 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / 4_294_967_296.0
    }
}

/// The operating system's randomness.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[allow(clippy::disallowed_methods, reason = "the one place that may")]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}

/// A fixed sequence from a seed (SplitMix64): for tests, the demo and benchmarks. Never for secrets.
#[derive(Debug)]
pub struct SeededEntropy {
    state: Mutex<u64>,
}

impl SeededEntropy {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: Mutex::new(seed) }
    }

    /// The next 64 bits.
    pub fn next(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
