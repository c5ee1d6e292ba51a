//! One list of scenarios, played on each line of brokers that registers in ZooKeeper.
//!
//! Those of the later lines are ignored unless asked for: `tests/run.sh --all-brokers` asks for the ones whose jars
//! `tests/setup.sh --all-brokers` has found.

/// A module for each broker, with a test for each scenario: a function that takes the version.
macro_rules! on_every_broker {
    (
        $($file:ident::$scenario:ident,)*
        [from 0.11] $($later_file:ident::$later_scenario:ident,)*
        [from 2.1] $($last_file:ident::$last_scenario:ident,)*
    ) => {
        on_broker! { on_0_8_2_2, V0_8_2_2, $($file::$scenario,)* }
        on_broker! { on_0_9_0_1, V0_9_0_1, $($file::$scenario,)* }
        on_later_broker! { on_0_10_2_2, V0_10_2_2, $($file::$scenario,)* }
        on_later_broker! {
            on_0_11_0_3, V0_11_0_3, $($file::$scenario,)* $($later_file::$later_scenario,)*
        }
        on_later_broker! {
            on_1_1_1, V1_1_1, $($file::$scenario,)* $($later_file::$later_scenario,)*
        }
        on_later_broker! {
            on_2_3_1, V2_3_1, $($file::$scenario,)* $($later_file::$later_scenario,)*
            $($last_file::$last_scenario,)*
        }
        on_later_broker! {
            on_2_8_2, V2_8_2, $($file::$scenario,)* $($later_file::$later_scenario,)*
            $($last_file::$last_scenario,)*
        }
        on_later_broker! {
            on_3_9_2, V3_9_2, $($file::$scenario,)* $($later_file::$later_scenario,)*
            $($last_file::$last_scenario,)*
        }
    };
}

macro_rules! on_broker {
    ($module:ident, $version:ident, $($file:ident::$scenario:ident,)*) => {
        mod $module {
            $(
                #[test]
                fn $scenario() {
                    crate::$file::$scenario(crate::support::KafkaVersion::$version);
                }
            )*
        }
    };
}

macro_rules! on_later_broker {
    ($module:ident, $version:ident, $($file:ident::$scenario:ident,)*) => {
        mod $module {
            $(
                #[test]
                #[ignore = "for tests/run.sh --all-brokers"]
                fn $scenario() {
                    crate::$file::$scenario(crate::support::KafkaVersion::$version);
                }
            )*
        }
    };
}

on_every_broker! {
    bad_messages::a_message_larger_than_the_fetch_is_told_or_arrives_and_the_rest_goes_on,
    connector::two_members_share_a_topic_and_one_without_topics_changes_nothing,
    consuming::every_message_of_every_codec_arrives_once_and_in_order_with_any_number_of_streams,
    consuming::what_the_producer_of_the_brokers_version_wrote_arrives,
    killed_members::a_killed_member_starts_again_at_once_with_the_same_id,
    leader_change::killed_leaders_cost_neither_a_message_nor_a_rebalance,
    newer_formats::messages_have_the_time_that_their_topic_wants,
    positions::a_log_that_lost_its_start_is_read_from_where_the_rule_says,
    positions::a_missing_or_impossible_offset_is_replaced_by_the_rule,
    positions::the_original_reads_the_offsets_that_ours_have_stored,
    resuming::after_a_shutdown_the_next_member_goes_on_without_loss_or_repeat,
    resuming::after_kill_9_of_kzc_only_what_was_not_committed_is_repeated,
    support_itself::a_broker_registers_in_the_version_of_its_line_at_the_zookeeper_of_its_release,
    topics::a_deleted_topic_stays_deleted_and_is_consumed_again_from_its_start_once_it_is_created_again,
    topics::a_member_without_brokers_waits_and_each_partition_comes_with_its_leader,
    topics::a_topic_and_partitions_that_come_later_are_consumed_and_asking_for_them_creates_nothing,
    topics::none_of_many_topics_that_are_deleted_at_once_comes_back,
    upgrades::a_log_of_all_formats_that_the_broker_knows_is_read_as_one,
    [from 0.11]
    newer_formats::a_member_that_reads_what_is_committed_sees_neither_open_nor_aborted_transactions,
    newer_formats::headers_arrive_in_their_order,
    transactions::messages_of_transactions_arrive_and_their_markers_do_not,
    [from 2.1]
    newer_formats::what_the_producer_compressed_with_zstd_arrives,
}
