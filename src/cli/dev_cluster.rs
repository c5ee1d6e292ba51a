//! `kzc dev-cluster`.

use std::io;
use std::io::Write;
use std::time::Duration;

use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::embedded::EmbeddedZooKeeperOptions;

use crate::cli::embedded_arguments::DevClusterArguments;
use crate::cli::ending::Ending;
use crate::cli::failure::Failure;
use crate::cli::run::say;

/// Replicas of a topic for which nothing was said, if there are so many brokers.
const REPLICAS: i32 = 3;

/// Starts a cluster, tells where it is, and waits for the end.
pub(crate) fn dev_cluster(arguments: &DevClusterArguments, ending: &Ending) -> Result<(), Failure> {
    let cluster = start(arguments)?;
    ending.defer_signals();
    let zookeeper = cluster.connect_string();
    let brokers: Vec<String> = cluster
        .bootstrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let brokers = brokers.join(",");
    // In one piece, so that whoever waits for the file to be filled finds both.
    let told = format!("export ZOOKEEPER={zookeeper}\nexport BROKERS={brokers}\n");
    let mut output = io::stdout();
    output
        .write_all(told.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Failure::runtime("writing to standard output", &error))?;
    let topic = arguments
        .topics
        .first()
        .map_or("TOPIC", |topic| &topic.name);
    let kept = match &arguments.data_dir {
        Some(folder) => format!("everything is kept in {}", folder.display()),
        None => String::from("everything is in memory and gone at the end"),
    };
    say(&format!(
        "kzc: {kept}; Ctrl-C ends it. In other terminals:\n\
         \x20 kzc produce --broker {brokers} --topic {topic}\n\
         \x20 kzc consume --zookeeper {zookeeper} --topic {topic} --from-beginning"
    ));
    while ending.pause(Duration::from_secs(3600)) {}
    Ok(())
}

fn start(arguments: &DevClusterArguments) -> Result<EmbeddedCluster, Failure> {
    let mut builder = EmbeddedCluster::builder()
        .brokers(arguments.brokers)
        .version(arguments.kafka_version)
        .zookeeper(EmbeddedZooKeeperOptions {
            port: arguments.zookeeper_port,
            ..EmbeddedZooKeeperOptions::default()
        });
    if arguments.broker_port != 0 {
        builder = builder.broker_port(arguments.broker_port);
    }
    if let Some(folder) = &arguments.data_dir {
        builder = builder.data_dir(folder);
    }
    for topic in &arguments.topics {
        let replicas = topic.replicas.unwrap_or(arguments.brokers.min(REPLICAS));
        if replicas > arguments.brokers {
            let (name, brokers) = (&topic.name, arguments.brokers);
            let text = format!("--topic {name}: {replicas} replicas, but --brokers is {brokers}");
            return Err(Failure::Usage(text));
        }
        let replicas = usize::try_from(replicas).unwrap_or(1);
        builder = builder.topic(&topic.name, topic.partitions, replicas);
    }
    builder
        .start()
        .map_err(|error| Failure::library("starting the cluster", &error))
}
