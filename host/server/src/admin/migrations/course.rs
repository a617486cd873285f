//! How migrations went for those who called meanwhile: the longest epoch and latencies, every two seconds from a little before
//! each began until a little after its end. It is kept in memory, as what is known of migrations is; one thread looks,
//! whoever watches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use styx_driver::coordinator::{MigrationId, MigrationReport, Migrations};
use styx_protocol::ids::Timestamp;
use utoipa::ToSchema;

use crate::admin::{Admin, Queries};
use crate::clock;
use crate::http::{ApiError, PathParts};
// Gateways report as often: who looked more often would see nothing more.
use crate::nodes::{EVERY, Latency};

/// Looks that are kept from before a migration, and made after its end.
const AROUND: usize = 5;

/// Points of one that are kept: of one that goes on for longer, each point is of more looks.
const POINTS_MAX: usize = 120;

/// What was seen from one look to the next.
#[derive(Clone, Debug, PartialEq)]
struct Look {
    from: Timestamp,
    until: Timestamp,
    /// Of the epochs that ended, if any did, µs.
    longest_us: Option<u64>,
    /// What was executed.
    calls: Latency,
}

impl Look {
    /// Both together: `other` follows.
    fn and(mut self, other: &Look) -> Look {
        self.until = other.until;
        self.longest_us = self.longest_us.max(other.longest_us);
        self.calls.add(&other.calls);
        self
    }

    fn point(&self, began: Timestamp) -> CoursePoint {
        let ms = |seconds: f64| seconds * 1e3;
        CoursePoint {
            after_ms: (self.from.0 as i64 - began.0 as i64) / 1000,
            ms: self.until.0.saturating_sub(self.from.0) / 1000,
            longest_epoch_ms: self.longest_us.map(|us| us as f64 / 1e3),
            calls: self.calls.count(),
            p50_ms: self.calls.percentile(0.5).map(ms),
            p99_ms: self.calls.percentile(0.99).map(ms),
        }
    }
}

/// One that goes on, or has just ended.
#[derive(Debug)]
struct Course {
    id: MigrationId,
    began: Timestamp,
    /// Each with how many looks it is of.
    points: Vec<(u32, Look)>,
    /// The most looks that a point is of.
    span: u32,
    /// Looks since its end.
    after: usize,
}

impl Course {
    fn add(&mut self, look: &Look) {
        match self.points.pop() {
            Some((looks, last)) if looks < self.span => self.points.push((looks + 1, last.and(look))),
            last => self.points.extend(last.into_iter().chain([(1, look.clone())])),
        }
        if self.points.len() > POINTS_MAX {
            self.span *= 2;
            let pairs = self.points.chunks(2).map(|pair| match pair {
                [(a, one), (b, other)] => (a + b, one.clone().and(other)),
                single => single[0].clone(),
            });
            self.points = pairs.collect();
        }
    }

    fn points(&self) -> Vec<CoursePoint> {
        self.points.iter().map(|(_, look)| look.point(self.began)).collect()
    }
}

/// See the module.
#[derive(Debug, Default)]
struct Known {
    /// The last looks.
    before: VecDeque<Look>,
    open: Vec<Course>,
    /// Those to which nothing is added any more.
    ended: VecDeque<(MigrationId, Vec<CoursePoint>)>,
    /// The newest that was ever seen.
    newest: Option<MigrationId>,
}

impl Known {
    fn look(&mut self, migrations: &Migrations, look: Look) {
        let reports = &migrations.reports;
        for report in reports.iter().filter(|report| Some(report.id) > self.newest) {
            let points = self.before.iter().map(|look| (1, look.clone())).collect();
            self.open.push(Course { id: report.id, began: report.began, points, span: 1, after: 0 });
        }
        self.newest = self.newest.max(reports.iter().map(|report| report.id).max());
        let ended_by = |id: MigrationId| reports.iter().find(|report| report.id == id).map(|report| report.ended);
        for mut course in std::mem::take(&mut self.open) {
            // What is not known any more is not asked for either.
            let Some(ended) = ended_by(course.id) else { continue };
            course.add(&look);
            course.after += usize::from(ended.is_some_and(|ended| look.from >= ended));
            if course.after < AROUND {
                self.open.push(course);
            } else {
                self.ended.push_back((course.id, course.points()));
            }
        }
        self.ended.retain(|(id, _)| ended_by(*id).is_some());
        self.before.push_back(look);
        if self.before.len() > AROUND {
            self.before.pop_front();
        }
    }

    fn of(&self, report: &MigrationReport) -> MigrationCourse {
        let ended = self.ended.iter().find(|(id, _)| *id == report.id).map(|(_, points)| points.clone());
        let complete = ended.is_some();
        let open = || self.open.iter().find(|course| course.id == report.id).map(Course::points);
        // One that has begun since the last look.
        let just = || self.before.iter().map(|look| look.point(report.began)).collect();
        let points = ended.or_else(open).unwrap_or_else(just);
        MigrationCourse { id: report.id.to_string(), complete, points }
    }
}

/// What is known of how migrations went. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(in crate::admin) struct Courses(Arc<Mutex<Known>>);

impl Courses {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks until the process ends. A thread: coordinators are started within a runtime and outside of one.
    pub(in crate::admin) fn begin(&self, admin: &Admin) {
        let admin = admin.clone();
        let looks = std::thread::Builder::new().name("styx-course".into()).spawn(move || {
            let mut from = (clock::now(), admin.all_traffic().executed());
            let _ = admin.handle.stats().longest_epoch();
            while !admin.shutdown.begun() {
                std::thread::sleep(EVERY);
                let stats = admin.handle.stats();
                let (now, longest_us) = (clock::now(), stats.longest_epoch());
                let executed = admin.all_traffic().executed();
                let look = Look { from: from.0, until: now, longest_us, calls: executed.since(&from.1) };
                admin.courses.lock().look(&stats.migrations(), look);
                from = (now, executed);
            }
        });
        if let Err(error) = looks {
            tracing::warn!("how migrations go is not kept: cannot start a thread: {error}");
        }
    }
}

/// How a migration went for those who called meanwhile.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct MigrationCourse {
    id: String,
    /// True once nothing is added any more: a little after its end.
    complete: bool,
    /// One after the other, at most 120.
    points: Vec<CoursePoint>,
}

/// A few seconds of it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CoursePoint {
    /// When it begins, ms since the migration began: less than nothing before that.
    after_ms: i64,
    /// How long it is.
    ms: u64,
    /// Of the epochs that ended in it; null if none did.
    longest_epoch_ms: Option<f64>,
    /// Calls that were executed, as gateways have reported it: up to two seconds later.
    calls: u64,
    /// How long they took: half of them less than this, and 99 of 100 less than that; null if there were none.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// How long epochs and calls took before, during and after a migration
///
/// Every two seconds, from ten seconds before it began until ten after its end; of one that goes on for more than four minutes,
/// points are of more seconds each. Known as long as the migration is.
#[utoipa::path(
    get,
    path = "/v1/migrations/{id}/course",
    params(("id" = String, Path)),
    responses((status = 200, body = MigrationCourse))
)]
pub async fn course(
    State(queries): State<Queries>,
    State(courses): State<Courses>,
    PathParts(id): PathParts<String>,
) -> Result<Json<MigrationCourse>, ApiError> {
    let report = queries.migration(&id)?;
    Ok(Json(courses.lock().of(&report)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use styx_driver::coordinator::{MigrationMode, MigrationState};
    use styx_protocol::ids::{Generation, PlacementVersion};
    use styx_protocol::machine::worker::CopiedOf;

    use super::*;
    use crate::http::{Latencies, Outcome};
    use crate::nodes::TrafficReport;

    const SECOND: u64 = 1_000_000;

    fn report(number: u32, began: u64, ended: Option<u64>) -> MigrationReport {
        MigrationReport {
            id: MigrationId { generation: Generation(3), number },
            ticket: 1,
            version: PlacementVersion(4),
            mode: MigrationMode::Online,
            state: if ended.is_some() { MigrationState::Done } else { MigrationState::Copying },
            phases: Vec::new(),
            transfers: Vec::new(),
            repartitioned: None,
            partitions: CopiedOf::default(),
            entities: CopiedOf::default(),
            bytes: CopiedOf::default(),
            rate: None,
            began: Timestamp(began * SECOND),
            ended: ended.map(|ended| Timestamp(ended * SECOND)),
            took: Duration::ZERO,
        }
    }

    /// From this second on for two: the longest epoch, and calls of a millisecond or less.
    fn look(from: u64, longest_us: Option<u64>, calls: u64) -> Look {
        let latencies = Latencies::default();
        (0..calls).for_each(|_| latencies.record(Outcome::Committed, Duration::from_micros(900)));
        let calls = TrafficReport::of(&latencies).executed();
        Look { from: Timestamp(from * SECOND), until: Timestamp((from + 2) * SECOND), longest_us, calls }
    }

    fn all(reports: &[MigrationReport]) -> Migrations {
        Migrations { reports: reports.to_vec(), ..Migrations::default() }
    }

    fn after(course: &MigrationCourse) -> Vec<i64> {
        course.points.iter().map(|point| point.after_ms / 1000).collect()
    }

    #[test]
    fn it_is_known_from_a_little_before_the_beginning_until_a_little_after_the_end() {
        let mut known = Known::default();
        let looks = |known: &mut Known, seconds: std::ops::Range<u64>, reports: &[MigrationReport]| {
            seconds.step_by(2).for_each(|from| known.look(&all(reports), look(from, Some(from), 1)));
        };
        looks(&mut known, 100..130, &[]);
        let under_way = report(1, 131, None);
        assert_eq!(after(&known.of(&under_way)), [-11, -9, -7, -5, -3], "nobody has looked since it began");
        looks(&mut known, 130..136, std::slice::from_ref(&under_way));
        let course = known.of(&under_way);
        assert_eq!(after(&course), [-11, -9, -7, -5, -3, -1, 1, 3]);
        let point = &course.points[7];
        assert_eq!((point.ms, point.longest_epoch_ms, point.calls), (2000, Some(0.134), 1));
        assert!(!course.complete);
        let ended = report(1, 131, Some(137));
        looks(&mut known, 136..160, std::slice::from_ref(&ended));
        let course = known.of(&ended);
        assert_eq!((after(&course).last(), course.complete), (Some(&15), true));
        // Nothing is added to it any more, nor is it begun again.
        looks(&mut known, 160..180, std::slice::from_ref(&ended));
        assert_eq!(known.of(&ended), course);
        // One that has begun and ended between two looks, and a second one soon after.
        let more = [ended.clone(), report(2, 181, Some(181)), report(3, 184, None)];
        looks(&mut known, 180..190, &more);
        assert_eq!(after(&known.of(&more[1])), [-11, -9, -7, -5, -3, -1, 1, 3, 5, 7]);
        assert_eq!(after(&known.of(&more[2])).len(), 10);
        // What is forgotten of migrations is forgotten here.
        looks(&mut known, 190..220, &more[2..]);
        assert_eq!((known.open.len(), known.ended.len()), (1, 0));
    }

    #[test]
    fn however_long_it_goes_on_it_has_only_so_many_points_and_all_calls_are_in_one() {
        let (mut known, under_way) = (Known::default(), report(1, 0, None));
        for at in 0..5000 {
            let longest = (at == 77).then_some(9_000_000).or(Some(5));
            known.look(&all(std::slice::from_ref(&under_way)), look(2 * at, longest, 1));
            let course = known.of(&under_way);
            assert!(course.points.len() <= POINTS_MAX);
            assert_eq!(course.points.iter().map(|point| point.calls).sum::<u64>(), at + 1);
            let follows = |two: &[CoursePoint]| two[0].after_ms + two[0].ms as i64 == two[1].after_ms;
            assert!(course.points.windows(2).all(follows), "{:?}", course.points);
        }
        let points = known.of(&under_way).points;
        assert!(points.len() > POINTS_MAX / 2, "{}", points.len());
        let longest = points.iter().map(|point| point.longest_epoch_ms.unwrap()).fold(0.0, f64::max);
        assert!((longest - 9000.0).abs() < 1e-9, "the longest of all stays: {longest}");
        let p99 = points[9].p99_ms.unwrap();
        assert!((0.5..=1.0).contains(&p99), "{p99}");
    }

    #[test]
    fn where_nothing_was_executed_there_is_no_latency() {
        let point = look(3, None, 0).point(Timestamp(4 * SECOND));
        let expected =
            CoursePoint { after_ms: -1000, ms: 2000, longest_epoch_ms: None, calls: 0, p50_ms: None, p99_ms: None };
        assert_eq!(point, expected);
    }
}
