//! Deathstar's movie reviews: every call composes one.
//!
//! Its figures are how many there are, and the sum of their ratings.

use anyhow::ensure;
use rand::{Rng, RngCore};
use serde_json::{Value, json};

use super::chance::{Skewed, text};
use super::{Ask, Call, Check, Ledger, Seen, Workload, sums};

const TEXT: usize = 256;

const REVIEWS: u32 = 0;
const RATINGS: u32 = 1;
const FIGURES: usize = 2;

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
}

/// The sums of all reviews: how often there is a movie, a rating, an id, a text, a user; ratings; characters.
type Sums = [i64; 7];

fn whole(&[movies, ratings, ids, texts, users, _, characters]: &Sums) -> anyhow::Result<()> {
    let counts = [movies, ratings, ids, texts, users];
    let reviews = counts[0];
    ensure!(counts == [reviews; 5], "movies, ratings, ids, texts and users are not equally many: {counts:?}");
    let due = reviews * TEXT as i64;
    ensure!(characters == due, "{reviews} reviews have {characters} characters, not {due}");
    Ok(())
}

fn answered(&[reviews, .., ratings, _]: &Sums, ledger: &Ledger) -> anyhow::Result<()> {
    ledger.due(REVIEWS).demand("reviews:", reviews)?;
    ledger.due(RATINGS).demand("the sum of their ratings is", ratings)
}

/// The id of a review: a hash of its request (FNV-1a, 53 bits of it).
pub fn review_id(request: &str) -> u64 {
    let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    request.bytes().fold(0xcbf2_9ce4_8422_2325, add) >> 11
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
        let (rating, text) = (random.random_range(0..=10i32), text(random, TEXT));
        let arguments = format!("[\"user-{user}\",\"title-{title}\",{rating},\"{text}\"]");
        Call::write("frontend", request, "compose", arguments).adding([(REVIEWS, 1), (RATINGS, rating.into())])
    }

    fn figures(&self) -> usize {
        FIGURES
    }

    fn check(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> Vec<Check> {
        match sums(ask, "compose_review", "0", "audit") {
            Ok(sums) => vec![
                Check::new("every review is whole", whole(&sums)),
                Check::new("there are the reviews that were answered", answered(&sums, ledger)),
            ],
            Err(error) => vec![Check::new("all reviews can be read", Err(error))],
        }
    }

    fn witnesses(&self, call: &Call) -> Vec<Call> {
        vec![Call::read("compose_review", &*call.key, "read", "[]".into())]
    }

    fn judge(&self, seen: &Seen<'_>) -> anyhow::Result<()> {
        let [user, title, rating, text] = &*seen.arguments else { anyhow::bail!("a review has four arguments") };
        let id = |name: &Value| name.as_str()?.rsplit_once('-')?.1.parse::<u64>().ok();
        let review = json!({
            "movie": id(title), "rating": rating, "review": review_id(&seen.call.key), "text": text, "user": id(user),
        });
        ensure!(seen.before[0].is_null(), "there was {} before", seen.before[0]);
        ensure!(seen.answer == Some(Value::Null), "it was answered by {:?}", seen.answer);
        ensure!(seen.after[0] == review, "it became {}, not {review}", seen.after[0]);
        Ok(())
    }
}
