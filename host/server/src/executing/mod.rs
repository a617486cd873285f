//! What the threads of this process execute, noted where it outlives the process: so that the next life knows what was
//! under way when this one ended, and a request that ends every life is executed no more.
//!
//! Two files of the data directory: `executing`, which threads write through memory that they share with the kernel, and
//! `suspects`, which is read and written at a start. Both are only hints: one that cannot be read is as good as none.

mod marks;
mod noted;
mod slots;

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use styx_driver::suspicion::{Suspect, after_death};
use styx_protocol::ids::RequestId;

pub use noted::Noted;
pub use slots::Slot;
use slots::Slots;

const EXECUTING: &str = "executing";
const SUSPECTS: &str = "suspects";
/// Version of the file of suspects.
const VERSION: u32 = 1;

/// What is executed, and what earlier lives of this process are said to have ended of.
#[derive(Debug)]
pub struct Executing {
    slots: Arc<Slots>,
    suspects: Mutex<Vec<Suspect>>,
    directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    suspects: Vec<StoredSuspect>,
}

#[derive(Serialize, Deserialize)]
struct StoredSuspect {
    request: String,
    app: String,
    function: String,
    lives: u32,
    said: Option<String>,
    #[serde(default)]
    app_set_aside: bool,
}

impl Executing {
    /// Reads what the life before has left in a directory, which is this process's alone, and begins anew.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn begin(directory: &Path) -> io::Result<Arc<Executing>> {
        let (file, executing) = (directory.join(SUSPECTS), directory.join(EXECUTING));
        let before = read(&file);
        // Who ended in good order has left nothing, and a life that executed nothing says nothing.
        let suspects = match slots::found(&executing) {
            Some(found) => after_death(before, found),
            None => before,
        };
        write(&file, &suspects)?;
        for Suspect { request, app, function, lives, said, .. } in suspects.iter().filter(|suspect| suspect.lives > 1) {
            let said = said.as_deref().unwrap_or("it was under way");
            tracing::warn!(%request, app, function, lives, "the process has ended because of a request, or while it was under way: {said}");
        }
        marks::install();
        let (slots, suspects) = (Slots::create(&executing)?, Mutex::new(suspects));
        Ok(Arc::new(Executing { slots, suspects, directory: directory.to_owned() }))
    }

    /// Where one more thread notes what it executes.
    pub fn slot(&self) -> Slot {
        self.slots.slot()
    }

    /// The data directory.
    #[cfg(debug_assertions)]
    fn directory(&self) -> &Path {
        &self.directory
    }

    /// What was under way when earlier lives ended.
    pub fn suspects(&self) -> Vec<Suspect> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Only these are suspected any more.
    pub(crate) fn keep(&self, suspects: Vec<Suspect>) {
        let file = self.directory.join(SUSPECTS);
        if let Err(error) = write(&file, &suspects) {
            tracing::warn!("{}: {error}", file.display());
        }
        *self.suspects.lock().unwrap_or_else(PoisonError::into_inner) = suspects;
    }

    /// The process ends in good order: whatever was under way is not to blame.
    pub fn end(&self) {
        self.slots.clear();
        self.keep(Vec::new());
    }
}

fn read(file: &Path) -> Vec<Suspect> {
    let stored = match fs::read(file) {
        Ok(bytes) => serde_json::from_slice::<Stored>(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => Err(error),
    };
    match stored {
        Ok(Stored { version: VERSION, suspects }) => suspects.into_iter().filter_map(StoredSuspect::read).collect(),
        Ok(Stored { version, .. }) => {
            tracing::warn!(
                "{} is of version {version}, this program reads {VERSION}: nobody is suspected",
                file.display()
            );
            Vec::new()
        }
        Err(error) => {
            tracing::warn!("{}: {error}: nobody is suspected", file.display());
            Vec::new()
        }
    }
}

/// Replaces the file, or removes it if there are none.
fn write(file: &Path, suspects: &[Suspect]) -> io::Result<()> {
    if suspects.is_empty() {
        return match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let suspects = suspects.iter().map(StoredSuspect::of).collect();
    let mut part = tempfile::NamedTempFile::new_in(file.parent().expect("it is in a directory"))?;
    part.write_all(&serde_json::to_vec(&Stored { version: VERSION, suspects }).expect("text can be written"))?;
    part.as_file().sync_all()?;
    part.persist(file).map_err(|error| error.error)?;
    Ok(())
}

impl StoredSuspect {
    fn of(suspect: &Suspect) -> Self {
        let Suspect { request, app, function, lives, said, app_set_aside } = suspect.clone();
        StoredSuspect { request: request.to_string(), app, function, lives, said, app_set_aside }
    }

    fn read(self) -> Option<Suspect> {
        let StoredSuspect { request, app, function, lives, said, app_set_aside } = self;
        let request: RequestId = request.parse().ok()?;
        Some(Suspect { request, app, function, lives, said, app_set_aside })
    }
}

#[cfg(test)]
mod tests {
    use styx_protocol::ids::OperatorId;
    use styx_protocol::transaction::Request;

    use super::*;

    fn request(id: u128) -> Request {
        let (function, key, args) = ("pay".into(), "k".into(), b""[..].into());
        Request { id: RequestId(id), operator: OperatorId(0), function, key, args, retained: true, origin: None }
    }

    fn seen(suspects: &[Suspect]) -> Vec<(u128, &str, &str, u32, bool)> {
        let seen = |suspect: &'_ Suspect| (suspect.request.0, suspect.lives, suspect.said.is_some());
        let named = suspects.iter().map(|suspect| (seen(suspect), &*suspect.app, &*suspect.function));
        named.map(|((id, lives, said), app, function)| (id, app, function, lives, said)).collect()
    }

    #[test]
    fn the_next_life_finds_what_was_under_way_until_one_ends_in_good_order() {
        let directory = tempfile::tempdir().unwrap();
        let begin = || Executing::begin(directory.path()).unwrap();
        let shop: Arc<str> = "shop".into();
        let life = begin();
        let (mut one, mut two) = (life.slot(), life.slot());
        one.enter(&request(1), &shop);
        two.enter(&request(2), &shop);
        two.leave();
        drop((life, one, two));

        let life = begin();
        assert_eq!(seen(&life.suspects()), [(1, "shop", "pay", 1, false)]);
        drop(life);
        let life = begin();
        assert_eq!(seen(&life.suspects()), [(1, "shop", "pay", 1, false)], "a life that executes nothing says nothing");
        life.slot().enter(&request(1), &shop);
        drop(life);

        let life = begin();
        assert_eq!(seen(&life.suspects()), [(1, "shop", "pay", 2, false)]);
        life.slot().enter(&request(1), &shop);
        life.end();
        drop(life);
        assert_eq!(seen(&begin().suspects()), []);
    }

    #[test]
    fn a_thread_that_panics_says_so_and_others_are_not_to_blame() {
        let directory = tempfile::tempdir().unwrap();
        let life = Executing::begin(directory.path()).unwrap();
        let (mut innocent, mut culprit) = (life.slot(), life.slot());
        innocent.enter(&request(1), &"shop".into());
        let panics = std::thread::spawn(move || {
            culprit.enter(&request(2), &"bank".into());
            panic!("no {} here", "ground");
        });
        assert!(panics.join().is_err());
        drop(life);
        let suspects = Executing::begin(directory.path()).unwrap().suspects();
        assert_eq!(seen(&suspects), [(2, "bank", "pay", 1, true)]);
        let said = suspects[0].said.as_deref().unwrap();
        assert!(said.contains("no ground here") && said.contains("executing/mod.rs"), "{said}");
    }

    #[test]
    fn names_and_messages_of_any_length_fit() {
        let directory = tempfile::tempdir().unwrap();
        let life = Executing::begin(directory.path()).unwrap();
        let long = "é".repeat(1000);
        let mut slot = life.slot();
        let function = long.as_str().into();
        slot.enter(&Request { function, ..request(1) }, &long.as_str().into());
        marks::mark(&long);
        // One more than there is room for is executed all the same.
        let more: Vec<Slot> = (0..slots::SLOTS + 3).map(|_| life.slot()).collect();
        more.into_iter().for_each(|mut slot| slot.enter(&request(5), &"shop".into()));
        drop(life);
        let suspects = Executing::begin(directory.path()).unwrap().suspects();
        assert_eq!(suspects.len(), 1);
        assert!(long.starts_with(&suspects[0].app) && suspects[0].app.len() > 50);
        assert!(long.starts_with(&suspects[0].function) && long.starts_with(suspects[0].said.as_deref().unwrap()));
    }

    /// Files as version 1 has them: a slot that panicked, and one suspect.
    const EXECUTING_1: &[u8] = include_bytes!("../../fixtures/executing-1.bin");
    const SUSPECTS_1: &[u8] = include_bytes!("../../fixtures/suspects-1.json");

    #[test]
    fn files_of_version_1_are_read_and_others_say_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let begin = |executing: &[u8], suspects: &[u8]| {
            fs::write(directory.path().join(EXECUTING), executing).unwrap();
            fs::write(directory.path().join(SUSPECTS), suspects).unwrap();
            Executing::begin(directory.path()).unwrap().suspects()
        };
        let both = begin(EXECUTING_1, SUSPECTS_1);
        assert_eq!(seen(&both), [(7, "shop", "pay", 3, true)]);
        let mut newer = EXECUTING_1.to_vec();
        newer[6] += 1;
        assert_eq!(seen(&begin(&newer, SUSPECTS_1)), [(7, "shop", "pay", 2, true)]);
        assert_eq!(seen(&begin(&EXECUTING_1[..700], b"{\"version\":2,\"suspects\":[]}")), []);
        assert_eq!(seen(&begin(b"", b"nonsense")), []);
        assert_eq!(seen(&begin(&[0xff; 70_000], b"[]")), []);
    }

    #[test]
    #[ignore = "writes the fixtures: only together with a new version of the format"]
    fn write_the_fixtures() {
        let directory = tempfile::tempdir().unwrap();
        let life = Executing::begin(directory.path()).unwrap();
        life.slot().enter(&request(7), &"shop".into());
        marks::mark("boom");
        let said = Some("boom".to_owned());
        let (app, function) = ("shop".into(), "pay".into());
        life.keep(vec![Suspect { request: RequestId(7), app, function, lives: 2, said, app_set_aside: false }]);
        let to = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
        fs::create_dir_all(to("")).unwrap();
        fs::copy(directory.path().join(EXECUTING), to("executing-1.bin")).unwrap();
        fs::copy(directory.path().join(SUSPECTS), to("suspects-1.json")).unwrap();
    }
}
