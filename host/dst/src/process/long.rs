//! Threads that run long transactions beside the epochs: each reads through its process, and takes a time of its own.

use std::time::Duration;

use styx_driver::single::SingleEvent;
use styx_driver::worker::WorkerEvent;
use styx_protocol::attempt::{Operation, Reader, RemoteResponse};
use styx_protocol::executor::Executor as _;
use styx_protocol::ids::Generation;
use styx_protocol::task::{LongTask, RunId};

use super::Input;
use super::around::Around;
use crate::event::Event;
use crate::poison::{Part, suspect};
use crate::thread::{Answer, Wait, wait};
use crate::toy::Toy;

/// What a run reads through: its process.
#[derive(Debug)]
struct ProcessReader(Option<Generation>, RunId);

impl Reader for ProcessReader {
    fn read(&mut self, operation: Operation) -> RemoteResponse {
        match wait(Wait::State(self.0, self.1, operation)) {
            Answer::State(answer) => *answer,
            other => panic!("a run of a long transaction that has read was answered with {other:?}"),
        }
    }
}

/// Starts the thread of a run, of a generation if there are several workers, which works a while before it begins and before it tells its end.
pub fn start(generation: Option<Generation>, task: LongTask, around: &mut Around<'_>) {
    let inbox = around.own.inbox.clone();
    let mut works = || {
        let epochs = around.environment.random.between(0, 20);
        Duration::from_micros(around.environment.execution_time() * epochs)
    };
    let (before, after) = (works(), works());
    if around.environment.poison.ends(Part::Long, &task.transaction, &task.catalog) {
        let culprit = suspect(&task.transaction, &task.catalog, true);
        let life = around.own.life;
        return around.later(before.as_micros() as u64, Event::Poisoned(life, culprit));
    }
    around.spawn(move || {
        wait(Wait::Pause(before));
        let execution = Box::new(Toy::default().run_long(&task, Box::new(ProcessReader(generation, task.run))));
        wait(Wait::Pause(after));
        let ended = match generation {
            None => Input::Single(Box::new(SingleEvent::LongEnded(task.run, execution))),
            Some(generation) => Input::Worker(Box::new(WorkerEvent::LongEnded(generation, task.run, execution))),
        };
        inbox.borrow_mut().push_back(ended);
    });
}
