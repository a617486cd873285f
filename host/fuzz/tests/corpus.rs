//! Every target over what is kept for it, its seeds, and small changes of both, by a fixed seed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use styx_fuzz::{TARGETS, Target};
use styx_sim::random::Random;

/// Changed inputs for each target…
const CHANGES: usize = 20_000;
/// …unless it takes longer than this.
const TIME_MAX: Duration = Duration::from_millis(1500);

fn read(target: &Target, bytes: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.read)(bytes))).unwrap_or_else(|panic| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.crash", target.name));
        fs::write(&path, bytes).unwrap();
        eprintln!("{}: the input is in {}", target.name, path.display());
        resume_unwind(panic)
    })
}

/// Changes a few bytes, or moves some.
fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    for _ in 0..random.between(1, 4) {
        let length = bytes.len() as u64;
        let at = random.below(length + 1) as usize;
        match random.below(6) {
            0 => bytes.insert(at, random.number() as u8),
            1 => bytes.truncate(at),
            2 => {
                let other = &others[random.below(others.len() as u64) as usize];
                let from = random.below(other.len() as u64 + 1) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            kind if at < bytes.len() => match kind {
                3 => bytes[at] ^= 1 << random.below(8),
                4 => bytes[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                _ => drop(bytes.remove(at)),
            },
            _ => {}
        }
    }
}

fn kept(target: &Target) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(target.corpus()) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn whatever_the_bytes_are_they_are_read_or_refused() {
    let run = |target: &Target| {
        let mut inputs = (target.seeds)();
        let understood = inputs.iter().filter(|seed| read(target, seed)).count();
        assert!(understood > 0, "{}: no seed is of the present format", target.name);
        inputs.extend(kept(target));
        for input in &inputs {
            read(target, input);
        }
        let (mut random, begun) = (Random::new(7), Instant::now());
        let mut changed = 0;
        while changed < CHANGES && begun.elapsed() < TIME_MAX {
            let mut bytes = inputs[random.below(inputs.len() as u64) as usize].clone();
            change(&mut bytes, &inputs, &mut random);
            read(target, &bytes);
            changed += 1;
        }
        println!("{}: {} inputs, {changed} changed", target.name, inputs.len());
    };
    TARGETS.iter().for_each(run);
}

#[test]
fn what_is_kept_is_kept_for_a_target() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(cfg!(not(feature = "server")) || Target::named(&name).is_some(), "nothing reads corpus/{name}");
    }
}
