//! A run of a transaction or query beside the epochs: it begins anew with every answer, and is told what it was told before.

use std::sync::{Arc, Mutex};

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Execution, Operation, Reader, RemoteResponse};
use styx_protocol::executor::Executor as _;
use styx_protocol::task::{LongTask, RunId};
use styx_sim::toy::Toy;

/// See the module.
pub struct Run {
    task: LongTask,
    answers: Vec<RemoteResponse>,
}

/// Answers as before; what is read behind them is wanted.
#[derive(Debug)]
struct Known {
    answers: std::vec::IntoIter<RemoteResponse>,
    wanted: Arc<Mutex<Option<Operation>>>,
}

impl Reader for Known {
    fn read(&mut self, operation: Operation) -> RemoteResponse {
        self.answers.next().unwrap_or_else(|| {
            self.wanted.lock().unwrap().get_or_insert(operation);
            RemoteResponse::Failed(Abort::new(Code::Aborted, "it goes on when it is answered"))
        })
    }
}

impl Run {
    pub fn new(task: LongTask) -> Self {
        Run { task, answers: Vec::new() }
    }

    pub fn id(&self) -> RunId {
        self.task.run
    }

    pub fn answered(&mut self, answer: RemoteResponse) {
        self.answers.push(answer);
    }

    /// What it did; or what it must read first.
    pub fn go_on(&mut self, toy: &mut Toy) -> Result<Box<Execution>, Operation> {
        let wanted = Arc::default();
        let known = Known { answers: self.answers.clone().into_iter(), wanted: Arc::clone(&wanted) };
        let execution = toy.run_long(&self.task, Box::new(known));
        let wanted = wanted.lock().unwrap().take();
        wanted.map_or_else(|| Ok(Box::new(execution)), Err)
    }
}
