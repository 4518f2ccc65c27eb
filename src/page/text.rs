//! A string of bounded length made of atomic bytes.

use std::sync::atomic::{
    AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Text of at most `N` bytes; what is longer is cut.
#[derive(Debug)]
#[repr(C)]
pub struct Text<const N: usize> {
    length: AtomicU32,
    bytes: [AtomicU8; N],
}

impl<const N: usize> Text<N> {
    /// Writes the text.
    pub fn set(&self, text: &[u8]) {
        let text = &text[..text.len().min(N)];
        for (to, from) in self.bytes.iter().zip(text) {
            to.store(*from, Relaxed);
        }
        self.length.store(text.len() as u32, Release);
    }

    /// Reads the text.
    pub fn get(&self) -> Vec<u8> {
        let length = (self.length.load(Acquire) as usize).min(N);
        self.bytes[..length].iter().map(|byte| byte.load(Relaxed)).collect()
    }

    /// Reads the text as a string.
    pub fn get_string(&self) -> String {
        String::from_utf8_lossy(&self.get()).into_owned()
    }
}
