//! Scenarios in which the version of the brokers hardly matters, on 0.8.2.2, and those about messages on 0.9.0.1, too.

use crate::every_broker::on_broker;

macro_rules! on_0_8_2_2 {
    ($($scenario:tt)*) => {
        on_broker! { on_0_8_2_2, V0_8_2_2, $($scenario)* }
    };
}

macro_rules! on_both {
    ($($scenario:tt)*) => {
        on_broker! { on_0_8_2_2, V0_8_2_2, $($scenario)* }
        on_broker! { on_0_9_0_1, V0_9_0_1, $($scenario)* }
    };
}

mod about_messages {
    use super::on_broker;

    crate::scenarios::for_both_versions!(on_both);
}

mod about_groups {
    use super::on_broker;

    crate::scenarios::for_one_version!(on_0_8_2_2);
}
