//! The baseline: one file, a length and a CRC-32C before each record, one
//! write and one fdatasync per group. With `zeroed` the file's space is written
//! with zeros beforehand, so that a sync has no metadata to commit.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Result, ensure};

/// Bytes zeroed ahead at a time.
const ZEROED: u64 = 64 << 20;

pub struct PlainFile {
    file: File,
    offset: u64,
    zeroed: Option<u64>,
    buffer: Vec<u8>,
}

impl PlainFile {
    pub fn open(dir: &Path, zeroed: bool) -> Result<Self> {
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(dir.join("log"))?;
        let length = file.metadata()?.len();
        Ok(Self { file, offset: 0, zeroed: zeroed.then_some(length), buffer: Vec::new() })
    }
}

impl super::Store for PlainFile {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.buffer.write_all(&(record.len() as u32).to_le_bytes())?;
        self.buffer.write_all(&crc32c::crc32c(record).to_le_bytes())?;
        self.buffer.write_all(record)?;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if let Some(zeroed) = &mut self.zeroed {
            while self.offset + self.buffer.len() as u64 > *zeroed {
                self.file.write_all_at(&vec![0; ZEROED as usize], *zeroed)?;
                *zeroed += ZEROED;
                self.file.sync_all()?;
            }
        }
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        self.file.sync_data()?;
        Ok(())
    }

    fn replay(&mut self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut reader = BufReader::with_capacity(1 << 20, &self.file);
        let mut record = Vec::new();
        let mut header = [0; 8];
        loop {
            match reader.read_exact(&mut header) {
                Ok(()) if header != [0; 8] => {}
                _ => return Ok(()),
            }
            record.resize(u32::from_le_bytes(header[..4].try_into()?) as usize, 0);
            reader.read_exact(&mut record)?;
            ensure!(crc32c::crc32c(&record) == u32::from_le_bytes(header[4..].try_into()?), "bad checksum");
            f(&record);
        }
    }
}
