//! Random numbers, of every strength: from the invocation's generator.

use styx_protocol::attempt::Attempt;
use wasmtime::component::HasData;
use wasmtime::{Result, ensure};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

/// Most bytes that one request gets.
const BYTES_MAX: u64 = 1 << 20;

/// splitmix64, for start-up code: every instance draws the same numbers there.
#[derive(Default)]
pub(super) struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

pub(super) struct Randoms;
impl HasData for Randoms {
    type Data<'a> = View<'a>;
}

pub(super) struct View<'a> {
    pub attempt: Option<&'a mut Attempt>,
    /// Answers without one.
    pub start: &'a mut Generator,
}

impl View<'_> {
    fn next(&mut self) -> u64 {
        match &mut self.attempt {
            Some(attempt) => attempt.random(),
            None => self.start.next(),
        }
    }

    fn bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        ensure!(count <= BYTES_MAX, "{count} random bytes asked for at once; at most {BYTES_MAX}");
        let mut bytes = Vec::with_capacity(count as usize + 8);
        while bytes.len() < count as usize {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count as usize);
        Ok(bytes)
    }
}

impl random::Host for View<'_> {
    fn get_random_bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        self.bytes(count)
    }
    fn get_random_u64(&mut self) -> Result<u64> {
        Ok(self.next())
    }
}

impl insecure::Host for View<'_> {
    fn get_insecure_random_bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        self.bytes(count)
    }
    fn get_insecure_random_u64(&mut self) -> Result<u64> {
        Ok(self.next())
    }
}

impl insecure_seed::Host for View<'_> {
    fn insecure_seed(&mut self) -> Result<(u64, u64)> {
        Ok((self.next(), self.next()))
    }
}
