//! What a consumer can be told, and the `.properties` files that tell it.
//!
//! ```text
//!  .properties file ---> PropertyFile ---+
//!                                        v
//!  setters, one a key --------> ConsumerConfigBuilder ---> build: PropertyReader ---> ConsumerConfig
//!                               (text by key, the          (each key parsed and
//!                                last call wins)            checked once, in order)
//! ```
//!
//! The setters of [`ConsumerConfigBuilder`] are the table of all keys: unit, default, effect.
//!
//! Knows nothing of what the values are used for.

mod consumer_config;
mod consumer_config_builder;

mod auto_offset_reset;
mod broker_address_map;
mod consumed_on;
mod isolation_level;
mod offsets_storage;
mod on_bad_message;
mod partition_assignment_strategy;
mod round_robin_version;

mod checks;
mod choices;
mod connect_string;
mod nearest_key;
mod property_file;
mod property_reader;

pub(crate) use connect_string::ConnectString;

pub use auto_offset_reset::AutoOffsetReset;
pub use broker_address_map::BrokerAddressMap;
pub use consumed_on::ConsumedOn;
pub use consumer_config::ConsumerConfig;
pub use consumer_config_builder::ConsumerConfigBuilder;
pub use isolation_level::IsolationLevel;
pub use offsets_storage::OffsetsStorage;
pub use on_bad_message::OnBadMessage;
pub use partition_assignment_strategy::PartitionAssignmentStrategy;
pub use round_robin_version::RoundRobinVersion;
