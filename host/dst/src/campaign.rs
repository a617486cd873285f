//! A campaign: a run that is too long for one sitting, kept in a file, from which it goes on.

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::run::Run;

/// How often what has been done is written down.
const SAVED_EVERY: Duration = Duration::from_secs(5);

/// What is kept of a campaign.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Campaign {
    simulator: String,
    seed: u64,
    /// Seconds that it ran before.
    pub seconds: f64,
    /// All worlds so far.
    pub run: Run,
    #[serde(skip)]
    saved: Option<Instant>,
}

/// This very simulator, by its program: to another one the same seed may mean another world.
pub fn simulator() -> anyhow::Result<String> {
    let program = std::env::current_exe().and_then(std::fs::read).context("the simulator's own program")?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&program);
    Ok(format!("{:016x}", hasher.finish()))
}

impl Campaign {
    /// Begins a campaign, or goes on with the one in a file.
    ///
    /// # Errors
    /// The file is of another simulator or another run, or no campaign.
    pub fn open(file: &Path, seed: u64) -> anyhow::Result<Self> {
        let simulator = simulator()?;
        if !file.exists() {
            return Ok(Campaign { simulator, seed, seconds: 0.0, run: Run::default(), saved: None });
        }
        let name = file.display();
        let bytes = std::fs::read(file).with_context(|| format!("{name} cannot be read"))?;
        let campaign: Campaign = serde_json::from_slice(&bytes).with_context(|| format!("{name} is no campaign"))?;
        ensure!(
            campaign.simulator == simulator,
            "{name} is of simulator {}, and this is {simulator}: its seeds mean other worlds",
            campaign.simulator
        );
        ensure!(campaign.seed == seed, "{name} is of seed {}, not {seed}", campaign.seed);
        Ok(campaign)
    }

    /// Writes down what has been done, if that was not just done; the file is always whole.
    pub fn save(&mut self, file: &Path, run: &Run, seconds: f64, now: bool) -> anyhow::Result<()> {
        if !now && self.saved.is_some_and(|saved| saved.elapsed() < SAVED_EVERY) {
            return Ok(());
        }
        (self.run, self.seconds, self.saved) = (run.clone(), seconds, Some(Instant::now()));
        let beside = file.with_extension("new");
        std::fs::write(&beside, serde_json::to_vec(self)?)
            .and_then(|()| std::fs::rename(&beside, file))
            .with_context(|| format!("{} cannot be written", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_interrupted_goes_on_and_those_of_others_are_refused() {
        let file = std::env::temp_dir().join(format!("styx-dst-{}.json", std::process::id()));
        let mut campaign = Campaign::open(&file, 7).unwrap();
        let run = Run { worlds: 3, ..Run::default() };
        campaign.save(&file, &run, 1.5, false).unwrap();
        let again = Campaign::open(&file, 7).unwrap();
        assert_eq!((again.run.worlds, again.seconds), (3, 1.5));
        assert!(Campaign::open(&file, 8).unwrap_err().to_string().contains("is of seed 7"));
        campaign.simulator = "another".into();
        campaign.save(&file, &run, 1.5, true).unwrap();
        assert!(Campaign::open(&file, 7).unwrap_err().to_string().contains("other worlds"));
        std::fs::remove_file(&file).unwrap();
    }
}
