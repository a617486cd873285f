//! A large object on its way into the store, in pieces, in bounded memory.
//!
//! An object of one piece is put at once. A larger one is a multipart upload, a few pieces at a time, or a [`StagedFile`]
//! where objects are files; it exists when the last call succeeds, and not before. Dropping an upload abandons it.

use std::collections::VecDeque;

use bytes::Bytes;
use object_store::{MultipartUpload, PutPayload};

use super::error::SnapshotError;
use super::objects::{Objects, Pending};
use super::staged::{self, StagedFile};

/// Bytes per piece; S3 asks for 5 MiB at least, and takes 10,000 pieces: 80 GB a part.
const PIECE_BYTES: usize = 8 << 20;
/// Pieces under way at a time; with the one being filled, a writer has three pieces in memory at most.
const PIECES_UNDER_WAY: usize = 2;

pub(crate) struct Upload {
    objects: Objects,
    name: String,
    /// Not yet sent.
    pending: Vec<Bytes>,
    pending_bytes: usize,
    file: Option<StagedFile>,
    multipart: Option<Box<dyn MultipartUpload>>,
    under_way: VecDeque<Pending<Result<(), SnapshotError>>>,
}

impl Upload {
    pub(crate) fn new(objects: Objects, name: String) -> Self {
        let (pending, under_way) = (Vec::new(), VecDeque::new());
        Self { objects, name, pending, pending_bytes: 0, file: None, multipart: None, under_way }
    }

    pub(crate) fn write(&mut self, bytes: Bytes) -> Result<(), SnapshotError> {
        self.pending_bytes += bytes.len();
        self.pending.push(bytes);
        match self.objects.directory() {
            Some(_) if self.pending_bytes >= staged::PIECE_BYTES => self.write_file(),
            None if self.pending_bytes >= PIECE_BYTES => self.send(),
            _ => Ok(()),
        }
    }

    /// Writes what is pending into the file, which it makes first.
    fn write_file(&mut self) -> Result<(), SnapshotError> {
        let failed = |error| SnapshotError::store("write", &self.name, &error);
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let directory = self.objects.directory().expect("objects are files there");
                let file = StagedFile::create(directory.join(&self.name), self.objects.runtime().nonce());
                none.insert(file.map_err(failed)?)
            }
        };
        self.pending_bytes = 0;
        self.pending.drain(..).try_for_each(|bytes| file.write(&bytes)).map_err(failed)
    }

    fn send(&mut self) -> Result<(), SnapshotError> {
        if self.multipart.is_none() {
            self.multipart = Some(self.objects.start_multipart(&self.name)?);
        }
        while self.under_way.len() >= PIECES_UNDER_WAY {
            self.under_way.pop_front().expect("there is one").wait()?;
        }
        // Pieces of a multipart upload but the last have one size with some servers.
        let mut all = std::mem::take(&mut self.pending);
        let mut rest = self.pending_bytes.saturating_sub(PIECE_BYTES);
        if rest > 0 {
            let last = all.last_mut().expect("something is pending");
            debug_assert!(rest < last.len(), "a piece is sent as soon as it is full");
            let kept = last.split_off(last.len() - rest);
            self.pending.push(kept);
        }
        let upload = self.multipart.as_mut().expect("just started");
        let step = upload.put_part(all.into_iter().collect::<PutPayload>());
        self.under_way.push_back(self.objects.start_step(&self.name, step));
        std::mem::swap(&mut self.pending_bytes, &mut rest);
        if self.pending_bytes >= PIECE_BYTES { self.send() } else { Ok(()) }
    }

    /// Sends what is left; the object exists when that is done.
    pub(crate) fn finish(mut self) -> Pending<Result<(), SnapshotError>> {
        if self.file.is_some() {
            return Pending::Done(self.finish_file());
        }
        if self.multipart.is_none() {
            // Names are never used twice, so overwriting can only repeat what a lost answer hid.
            let whole = std::mem::take(&mut self.pending).concat();
            return self.objects.start_put(&self.name, whole);
        }
        Pending::Done(self.complete())
    }

    fn finish_file(&mut self) -> Result<(), SnapshotError> {
        self.write_file()?;
        let file = self.file.take().expect("it was made");
        file.finish().map_err(|error| SnapshotError::store("write", &self.name, &error))
    }

    fn complete(&mut self) -> Result<(), SnapshotError> {
        if self.pending_bytes > 0 {
            self.send()?;
        }
        while let Some(step) = self.under_way.pop_front() {
            step.wait()?;
        }
        let mut upload = self.multipart.take().expect("it was started");
        self.objects.start_step(&self.name, async move { upload.complete().await }).wait().map(|_| ())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut upload) = self.multipart.take() {
            // Pieces that cannot be deleted now are collected later, or expire by the bucket's rules.
            let _ = self.objects.start_step(&self.name, async move { upload.abort().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::location::{Memory, RetryPolicy, StoreLocation};
    use super::*;

    #[test]
    fn an_object_is_what_was_written_whatever_the_sizes_of_the_pieces() {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let locations =
            [StoreLocation::in_memory(&Memory::default()), StoreLocation::new(directory.path().to_str().unwrap())];
        let whole: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at / 1000) as u8).collect();
        let half = PIECE_BYTES / 2;
        let cases: [&[usize]; 7] = [
            &[5],
            &[PIECE_BYTES],
            &[half, half],
            // What is full is sent before there is more.
            &[half, half, half, half, 5],
            &[PIECE_BYTES - 1, 2],
            &[5, 2 * PIECE_BYTES],
            &[5, 3 * PIECE_BYTES],
        ];
        for (location, (number, lengths)) in
            locations.iter().flat_map(|location| cases.into_iter().enumerate().map(move |case| (location, case)))
        {
            let objects = Objects::open(location, RetryPolicy::Opening, tokio.handle().into()).unwrap();
            let name = format!("parts/{number}");
            let mut upload = Upload::new(objects.clone(), name.clone());
            let mut at = 0;
            for length in lengths {
                upload.write(Bytes::copy_from_slice(&whole[at..at + length])).unwrap();
                at += length;
            }
            assert!(objects.get(&name).unwrap().is_none(), "it exists when it is finished");
            upload.finish().wait().unwrap();
            assert!(objects.get(&name).unwrap().unwrap().bytes == whole[..at], "{lengths:?}");
        }
    }
}
