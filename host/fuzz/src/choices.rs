//! Choices taken from bytes: the same bytes choose the same, and every byte matters.

/// Bytes that decide.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Choices(bytes)
    }

    /// Whether all bytes are used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 behind the end.
    pub fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// A number: mostly a small one, or near an edge.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX - u64::from(self.byte()),
            254 => i64::MAX as u64 - u64::from(self.byte()),
            253 => u64::from(u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])),
            small => u64::from(small),
        }
    }
}
