//! What a candidate makes of one flipped bit.
//!
//! 64 records are written and synced one by one, the store is closed, and one
//! random bit of one random file is flipped. A fresh process then opens and
//! reads it: a log must report the damage, or show all records unharmed (the
//! bit was in unused space). Fewer records without an error is a lost commit.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::{candidates, record};

/// Head of the Markdown table of which [`run`] prints a row.
pub const HEADER: &str = "\
| candidate | flips | reported | unharmed | **lost silently** | **wrong bytes** | crashed |\n\
|---|---|---|---|---|---|---|";

const RECORDS: u64 = 64;
const LENGTH: usize = 1 << 10;
const FLIPS: u64 = 300;

const REPORTED: i32 = 10;
const LOST: i32 = 11;
const WRONG: i32 = 12;

/// Flips bits of `name` below `directory` and prints one row.
pub fn run(name: &str, directory: &Path) -> Result<()> {
    let pristine = tempfile::tempdir_in(directory)?;
    let mut store = candidates::open(name, pristine.path())?;
    let mut buffer = Vec::new();
    for n in 0..RECORDS {
        record(n, LENGTH, &mut buffer);
        store.append(&buffer)?;
        store.sync()?;
    }
    drop(store);

    let (mut reported, mut unharmed, mut lost, mut wrong, mut crashed) = (0, 0, 0, 0, 0);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for _ in 0..FLIPS {
        let copy = tempfile::tempdir_in(directory)?;
        copy_files(pristine.path(), copy.path())?;
        let files = used_files(copy.path())?;
        let total: u64 = files.iter().map(|(_, used)| used).sum();
        let mut at = random(total);
        for (path, used) in files {
            if at < used {
                let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                byte[0] ^= 1 << random(8);
                file.write_all_at(&byte, at)?;
                break;
            }
            at -= used;
        }
        let status = Command::new(std::env::current_exe()?)
            .args(["--probe", name])
            .arg(copy.path())
            .stderr(Stdio::null())
            .status()?;
        match status.code() {
            Some(0) => unharmed += 1,
            Some(REPORTED) => reported += 1,
            Some(LOST) => lost += 1,
            Some(WRONG) => wrong += 1,
            _ => crashed += 1,
        }
    }
    println!("| {name} | {FLIPS} | {reported} | {unharmed} | {lost} | {wrong} | {crashed} |");
    Ok(())
}

/// Opens and reads the damaged copy; the exit status tells what was seen.
pub fn probe(name: &str, directory: &Path) -> Result<()> {
    let mut count = 0;
    let mut wrong = false;
    let mut expected = Vec::new();
    let result = candidates::open(name, directory).and_then(|mut store| {
        store.replay(&mut |bytes| {
            record(count, LENGTH, &mut expected);
            wrong |= bytes != expected;
            count += 1;
        })
    });
    let code = match result {
        Err(_) => REPORTED,
        Ok(()) if wrong => WRONG,
        Ok(()) if count != RECORDS => LOST,
        Ok(()) => 0,
    };
    std::process::exit(code)
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_files(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Every file below `directory` with its length up to the last byte that is not zero.
fn used_files(directory: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(used_files(&entry.path())?);
            continue;
        }
        let bytes = fs::read(entry.path())?;
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        files.push((entry.path(), used));
    }
    files.sort();
    Ok(files)
}
