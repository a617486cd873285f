//! What a coordinator must know of its log before it leads.

use std::collections::BTreeSet;

use styx_protocol::control::Control;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{Generation, LogPosition};
use styx_protocol::placement::Seating;
use styx_protocol::record::{Record, RecordAssembler};
use styx_storage::log::{Log, LogError};

use super::read_record;

#[derive(Debug, Default)]
pub struct Survey {
    /// The highest generation.
    pub generation: Generation,
    /// Components of deployments, of which no snapshot needs to know yet.
    pub components: BTreeSet<Digest>,
    /// Who had which partition last, if the log says so.
    pub seating: Option<Seating>,
    /// The number of partitions, if the log says that.
    pub partitions: Option<u32>,
}

/// Looks through the log from a position on.
pub fn survey(log: &mut dyn Log, from: LogPosition) -> Result<Survey, LogError> {
    let (mut survey, mut assembler) = (Survey::default(), RecordAssembler::default());
    log.replay(from.0, &mut |_, bytes| {
        match assembler.take(read_record(bytes)?)? {
            Some(Record::Epoch(record)) => {
                survey.generation = survey.generation.max(record.generation);
                for control in &record.controls {
                    match control {
                        Control::Deploy(deployment) | Control::Rekey(deployment) => {
                            survey.components.extend(deployment.components.iter().map(|component| component.digest));
                        }
                        Control::Place(placement) => {
                            survey.partitions = Some(placement.partitions());
                            let seats = record.controls.iter().find_map(|beside| match beside {
                                Control::Seat(seats) => Some(seats.clone()),
                                _ => None,
                            });
                            survey.seating = seats.map(|seats| Seating { seats, owners: placement.owners().to_vec() });
                        }
                        _ => {}
                    }
                }
            }
            Some(Record::Generation(generation)) => survey.generation = survey.generation.max(generation),
            None | Some(Record::Genesis(_) | Record::Part(_)) => {}
        }
        Ok(())
    })?;
    Ok(survey)
}
