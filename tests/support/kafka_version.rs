//! The versions of Kafka that the tests know, and how they differ.

use std::time::Duration;

use super::components::Components;

/// Which broker, or which version's tools, to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KafkaVersion {
    V0_8_2_2,
    V0_9_0_1,
    V0_10_2_2,
    V0_11_0_3,
    V1_1_1,
    V2_3_1,
    V2_8_2,
    V3_9_2,
}

impl KafkaVersion {
    /// Those that `tests/setup.sh` installs unless it is asked for more.
    pub const BY_DEFAULT: [Self; 2] = [Self::V0_8_2_2, Self::V0_9_0_1];

    pub fn class_path(self) -> String {
        let (number, main_jar) = self.number_and_main_jar();
        let kafka = Components::kafka(number, main_jar);
        match self.has_logger() {
            true => kafka,
            false => format!("{kafka}:{}", Components::logger()),
        }
    }

    /// What its brokers ask ZooKeeper for.
    ///
    /// The later ones start slowly on a busy machine, and when their first session ends meanwhile they give up, or stay
    /// without a controller.
    pub fn session_timeout(self) -> Duration {
        match Self::BY_DEFAULT.contains(&self) {
            true => Duration::from_secs(2),
            false => Duration::from_secs(6),
        }
    }

    fn number_and_main_jar(self) -> (&'static str, &'static str) {
        match self {
            Self::V0_8_2_2 => ("0.8.2.2", "kafka_2.9.2-0.8.2.2.jar"),
            Self::V0_9_0_1 => ("0.9.0.1", "kafka_2.11-0.9.0.1.jar"),
            Self::V0_10_2_2 => ("0.10.2.2", "kafka_2.11-0.10.2.2.jar"),
            Self::V0_11_0_3 => ("0.11.0.3", "kafka_2.11-0.11.0.3.jar"),
            Self::V1_1_1 => ("1.1.1", "kafka_2.12-1.1.1.jar"),
            Self::V2_3_1 => ("2.3.1", "kafka_2.12-2.3.1.jar"),
            Self::V2_8_2 => ("2.8.2", "kafka_2.13-2.8.2.jar"),
            Self::V3_9_2 => ("3.9.2", "kafka_2.13-3.9.2.jar"),
        }
    }

    fn has_logger(self) -> bool {
        self < Self::V1_1_1
    }
}
