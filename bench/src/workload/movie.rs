//! Deathstar's movie reviews: every call composes one.

use anyhow::ensure;
use rand::{Rng, RngCore};

use super::chance::{Skewed, text};
use super::{Call, Check, Read, Workload, sums};

const TEXT: usize = 256;

/// How the workload is made up.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Those who write reviews
    #[arg(long, default_value_t = 1000)]
    pub users: u64,
    /// Movies
    #[arg(long, default_value_t = 1000)]
    pub titles: u64,
    /// Exponent of the Zipf distribution of movies
    #[arg(long, default_value_t = 0.0)]
    pub theta: f64,
}

pub struct Movie {
    users: u64,
    titles: u64,
    watched: Skewed,
}

impl Movie {
    /// With so many users and movies.
    pub fn new(options: &Options) -> anyhow::Result<Self> {
        let Options { users, titles, theta } = *options;
        ensure!(users > 0, "there is nobody to write a review: give --users 1 or more");
        Ok(Movie { users, titles, watched: Skewed::new(titles, theta)? })
    }

    fn whole(read: &mut Read<'_>) -> anyhow::Result<()> {
        let [movies, ratings, ids, texts, users, _, characters] = sums(read, "compose_review", "0", "audit")?;
        let counts = [movies, ratings, ids, texts, users];
        let reviews = counts[0];
        ensure!(counts == [reviews; 5], "movies, ratings, ids, texts and users are not equally many: {counts:?}");
        let due = reviews * TEXT as i64;
        ensure!(characters == due, "{reviews} reviews have {characters} characters, not {due}");
        Ok(())
    }
}

impl Workload for Movie {
    fn name(&self) -> &'static str {
        "deathstar-movie"
    }

    fn fill(&self) -> Box<dyn Iterator<Item = Call> + Send + '_> {
        let register = |operator, kind: &'static str, count| {
            (0..count).map(move |id| Call::write(operator, format!("{kind}-{id}"), "register", format!("[{id}]")))
        };
        Box::new(register("user", "user", self.users).chain(register("movie_id", "title", self.titles)))
    }

    fn next(&self, random: &mut dyn RngCore) -> Call {
        let request = format!("{:016x}", random.next_u64());
        let (user, title) = (random.random_range(0..self.users), self.watched.sample(random));
        let (rating, text) = (random.random_range(0..=10), text(random, TEXT));
        let arguments = format!("[\"user-{user}\",\"title-{title}\",{rating},\"{text}\"]");
        Call::write("frontend", request, "compose", arguments)
    }

    fn check(&self, read: &mut Read<'_>) -> Vec<Check> {
        vec![Check::new("every review is whole", Movie::whole(read))]
    }
}
