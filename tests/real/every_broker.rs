//! Scenarios that are played on each line of brokers that registers in ZooKeeper: those that the embedded cluster
//! stands as well, and those that need the original's tools.
//!
//! Those of the later lines are ignored unless asked for: `tests/run.sh --all-brokers` asks for the ones whose jars
//! `tests/setup.sh --all-brokers` has found.

/// A module for each broker, with a test for each scenario: a function that takes the version.
macro_rules! on_every_broker {
    ($($folder:ident::$file:ident::$scenario:ident,)*) => {
        on_broker! { on_0_8_2_2, V0_8_2_2, $($folder::$file::$scenario,)* }
        on_broker! { on_0_9_0_1, V0_9_0_1, $($folder::$file::$scenario,)* }
        on_later_broker! { on_0_10_2_2, V0_10_2_2, $($folder::$file::$scenario,)* }
        on_brokers_from_0_11! { $($folder::$file::$scenario,)* }
    };
}

/// Those that store headers and transactions.
macro_rules! on_brokers_from_0_11 {
    ($($folder:ident::$file:ident::$scenario:ident,)*) => {
        on_later_broker! { on_0_11_0_3, V0_11_0_3, $($folder::$file::$scenario,)* }
        on_later_broker! { on_1_1_1, V1_1_1, $($folder::$file::$scenario,)* }
        on_brokers_from_2_1! { $($folder::$file::$scenario,)* }
    };
}

/// Those that know zstd.
macro_rules! on_brokers_from_2_1 {
    ($($folder:ident::$file:ident::$scenario:ident,)*) => {
        on_later_broker! { on_2_3_1, V2_3_1, $($folder::$file::$scenario,)* }
        on_later_broker! { on_2_8_2, V2_8_2, $($folder::$file::$scenario,)* }
        on_later_broker! { on_3_9_2, V3_9_2, $($folder::$file::$scenario,)* }
    };
}

macro_rules! on_broker {
    ($module:ident, $version:ident, $($folder:ident::$file:ident::$scenario:ident,)*) => {
        mod $module {
            #[allow(unused_imports)]
            use crate::scenarios;
            $(
                #[test]
                fn $scenario() {
                    $folder::$file::$scenario(crate::support::KafkaVersion::$version);
                }
            )*
        }
    };
}

macro_rules! on_later_broker {
    ($module:ident, $version:ident, $($folder:ident::$file:ident::$scenario:ident,)*) => {
        mod $module {
            #[allow(unused_imports)]
            use crate::scenarios;
            $(
                #[test]
                #[ignore = "for tests/run.sh --all-brokers"]
                fn $scenario() {
                    $folder::$file::$scenario(crate::support::KafkaVersion::$version);
                }
            )*
        }
    };
}

pub(crate) use on_broker;

mod shared {
    crate::scenarios::for_every_version!(on_every_broker);
}

mod own {
    on_every_broker! {
        crate::bad_messages::a_message_larger_than_the_fetch_is_told_or_arrives_and_the_rest_goes_on,
        crate::consuming::what_the_producer_of_the_brokers_version_wrote_arrives,
        crate::embedded_brokers::embedded_brokers_tell_the_offsets_of_a_group_in_the_bytes_of_real_ones,
        crate::newer_formats::messages_have_the_time_that_their_topic_wants,
        crate::offsets_in_kafka::offsets_are_asked_for_in_the_version_that_tells_errors_of_the_group_where_it_is_served,
        crate::positions::the_original_reads_the_offsets_that_ours_have_stored,
        crate::support_itself::a_broker_registers_in_the_version_of_its_line_at_the_zookeeper_of_its_release,
        crate::topics::none_of_many_topics_that_are_deleted_at_once_comes_back,
        crate::upgrades::a_log_of_all_formats_that_the_broker_knows_is_read_as_one,
    }
}

mod own_from_0_11 {
    on_brokers_from_0_11! {
        crate::newer_formats::a_member_that_reads_what_is_committed_sees_neither_open_nor_aborted_transactions,
        crate::newer_formats::headers_arrive_in_their_order,
        crate::transactions::messages_of_transactions_arrive_and_their_markers_do_not,
    }
}

mod own_from_2_1 {
    on_brokers_from_2_1! {
        crate::newer_formats::what_the_producer_compressed_with_zstd_arrives,
    }
}
