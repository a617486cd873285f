//! Id of a topic, which the library tells in C only: one that was deleted and created again has another.

use std::ffi::CString;
use std::ptr;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::AdminClient;
use rdkafka::bindings::{
    RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT, rd_kafka_DescribeTopics, rd_kafka_DescribeTopics_result_topics,
    rd_kafka_TopicCollection_destroy, rd_kafka_TopicCollection_of_topic_names, rd_kafka_TopicDescription_error,
    rd_kafka_TopicDescription_topic_id, rd_kafka_Uuid_least_significant_bits, rd_kafka_Uuid_most_significant_bits,
    rd_kafka_error_code, rd_kafka_event_DescribeTopics_result, rd_kafka_event_destroy, rd_kafka_event_t,
    rd_kafka_event_type, rd_kafka_queue_destroy, rd_kafka_queue_new, rd_kafka_queue_poll,
};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::types::RDKafkaRespErr;

use super::KafkaProblem;
use super::client::TracedContext;

/// The id of a topic that exists.
///
/// # Errors
/// Nobody tells within `wait`.
pub fn topic_id(config: &ClientConfig, topic: &str, wait: Duration) -> Result<u128, KafkaProblem> {
    let problem = |detail: String| KafkaProblem::Client { topic: topic.to_owned(), detail };
    let admin =
        AdminClient::from_config_and_context(config, TracedContext).map_err(|error| problem(error.to_string()))?;
    let name = CString::new(topic).map_err(|_| problem("a topic cannot have this name".into()))?;
    let started = Instant::now();
    while started.elapsed() < wait {
        if let Some(id) = ask(&admin, &name, wait) {
            return Ok(id);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(problem("no broker tells its id, as Kafka does from version 2.8 on".into()))
}

fn ask(admin: &AdminClient<TracedContext>, name: &CString, wait: Duration) -> Option<u128> {
    let client = admin.inner().native_ptr();
    let mut names = [name.as_ptr()];
    // SAFETY: the client outlives the queue, and the event all that is read of it; what is made here is destroyed
    // here. The collection copies the name.
    unsafe {
        let queue = rd_kafka_queue_new(client);
        let topics = rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        rd_kafka_DescribeTopics(client, topics, ptr::null(), queue);
        rd_kafka_TopicCollection_destroy(topics);
        let event = rd_kafka_queue_poll(queue, wait.as_millis() as i32);
        let id = if event.is_null() { None } else { told(event) };
        if !event.is_null() {
            rd_kafka_event_destroy(event);
        }
        rd_kafka_queue_destroy(queue);
        id
    }
}

/// # Safety
/// The event has not been destroyed.
unsafe fn told(event: *mut rd_kafka_event_t) -> Option<u128> {
    // SAFETY: what is read belongs to the event, whose type is asked first; null is looked for before it is read.
    unsafe {
        if rd_kafka_event_type(event) != RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT {
            return None;
        }
        let mut count = 0;
        let described = rd_kafka_DescribeTopics_result_topics(rd_kafka_event_DescribeTopics_result(event), &mut count);
        if described.is_null() || count != 1 {
            return None;
        }
        if rd_kafka_error_code(rd_kafka_TopicDescription_error(*described))
            != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
        {
            return None;
        }
        let id = rd_kafka_TopicDescription_topic_id(*described);
        let (high, low) = (rd_kafka_Uuid_most_significant_bits(id), rd_kafka_Uuid_least_significant_bits(id));
        // Older brokers give none.
        Some(u128::from(high as u64) << 64 | u128::from(low as u64)).filter(|id| *id != 0)
    }
}
