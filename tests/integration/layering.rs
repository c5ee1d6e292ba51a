//! The arrows between the layers, and what else the tree promises, read from the sources.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// Modules of the crate that everybody may use.
const LEAVES: [&str; 6] = ["cluster", "config", "error", "events", "stats", "thread"];

/// Each layer with the layers below it.
const LAYERS: [(&str, &[&str]); 7] = [
    ("protocol", &[]),
    ("embedded", &["protocol"]),
    ("net", &["protocol"]),
    ("fetch", &["protocol", "net"]),
    ("zk", &[]),
    ("coordination", &["zk"]),
    (
        "consumer",
        &["protocol", "net", "fetch", "zk", "coordination"],
    ),
];

/// Longest file, tests not counted.
const LONGEST_FILE: usize = 500;

/// Longest function, tests not counted.
const LONGEST_FUNCTION: usize = 60;

struct Source {
    path: PathBuf,
    /// The first folder or file below `src`.
    layer: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        let text = self.path.to_string_lossy();
        text.contains("/tests/") || text.ends_with("/tests.rs") || text.ends_with("fake_broker.rs")
    }

    /// The text without its unit tests, which stand at the end.
    fn without_tests(&self) -> &str {
        let end = self.text.find("#[cfg(test)]\nmod tests {");
        &self.text[..end.unwrap_or(self.text.len())]
    }

    /// Modules of the crate that the file names.
    fn names(&self) -> Vec<&str> {
        self.without_tests()
            .split("crate::")
            .skip(1)
            .map(|rest| {
                rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next()
                    .unwrap()
            })
            .filter(|name| name.starts_with(|c: char| c.is_lowercase()))
            .collect()
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(&root).unwrap();
                let first = relative.components().next().unwrap().as_os_str();
                sources.push(Source {
                    layer: first.to_string_lossy().trim_end_matches(".rs").to_owned(),
                    text: fs::read_to_string(&path).unwrap(),
                    path: path.clone(),
                });
            }
        }
    }
    assert!(sources.len() > 50, "the sources were not found");
    sources
}

/// Collects complaints, so that one run shows them all.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn a_layer_names_only_layers_below_it() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let below: &[&str] = match LAYERS.iter().find(|(layer, _)| *layer == source.layer) {
            Some((_, below)) => below,
            None if LEAVES.contains(&source.layer.as_str()) => &[],
            None => continue,
        };
        for name in source.names() {
            let allowed = name == source.layer || LEAVES.contains(&name) || below.contains(&name);
            if LAYERS.iter().any(|(layer, _)| *layer == name) && !allowed {
                complaints.push(format!("{} names {name}", source.path.display()));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn a_leaf_names_no_layer_and_the_tool_only_what_the_library_exports() {
    let mut complaints = Vec::new();
    for source in sources() {
        let is_tool = source.layer == "cli" || source.layer == "main";
        for name in source.names() {
            if is_tool && name != "cli" && LAYERS.iter().any(|(layer, _)| *layer == name) {
                complaints.push(format!("{} names {name}", source.path.display()));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn only_zk_knows_the_zookeeper_client() {
    let knows = |source: &Source| source.text.contains("zookeeper_client::");
    let outside: Vec<String> = sources()
        .iter()
        .filter(|source| source.layer != "zk" && knows(source))
        .map(|source| source.path.display().to_string())
        .collect();
    assert_none(&outside);
}

#[test]
fn every_thread_has_an_owner_and_every_wait_a_way_out() {
    // Host names are resolved by the system, which can be neither bounded nor cancelled; that thread is left behind.
    let exceptions = [("thread.rs", "spawn("), ("connect.rs", "spawn(")];
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        if source.layer == "cli" || source.layer == "main" {
            continue;
        }
        for word in [
            "thread::spawn",
            "Builder::new().spawn(",
            "sleep(",
            "unbounded(",
        ] {
            let is_exception = exceptions
                .iter()
                .any(|(file, part)| source.path.ends_with(file) && word.contains(part));
            if source.without_tests().contains(word) && !is_exception {
                complaints.push(format!("{} has {word}", source.path.display()));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn a_mod_file_holds_no_code() {
    let mut complaints = Vec::new();
    let allowed = [
        "//!",
        "mod ",
        "pub mod ",
        "pub(crate) mod ",
        "pub use ",
        "pub(crate) use ",
        "#[cfg(",
    ];
    for source in sources()
        .iter()
        .filter(|source| source.path.ends_with("mod.rs"))
    {
        for line in source.text.lines().filter(|line| !line.is_empty()) {
            if !allowed.iter().any(|start| line.starts_with(start)) {
                complaints.push(format!("{}: {line}", source.path.display()));
            }
        }
        if !source.is_test() && !source.text.starts_with("//!") {
            complaints.push(format!("{} opens without a page", source.path.display()));
        }
    }
    assert_none(&complaints);
}

#[test]
fn sources_are_ascii_and_neither_a_file_nor_a_function_is_a_wall() {
    let mut complaints = Vec::new();
    for source in sources() {
        let path = source.path.display();
        if let Some(line) = source.text.lines().position(|line| !line.is_ascii()) {
            complaints.push(format!("{path}, line {}: not ASCII", line + 1));
        }
        let lines = source.without_tests().lines().count();
        if !source.is_test() && lines > LONGEST_FILE {
            complaints.push(format!("{path}: {lines} lines"));
        }
        if !source.is_test() {
            let walls = walls(source.without_tests());
            complaints.extend(walls.map(|line| format!("{path}: `{line}` is too long")));
        }
        let name = source
            .path
            .file_stem()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if ["utils", "common", "helpers", "types"].contains(&name.as_str()) {
            complaints.push(format!("{path}: a name for everything"));
        }
    }
    assert_none(&complaints);
}

#[test]
fn markdown_has_one_sentence_a_line_and_the_top_level_is_bare() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let allowed = [
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "LICENSE",
        "src",
        "tests",
        "docs",
        "target",
    ];
    let mut complaints = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !allowed.contains(&name.as_str()) {
            complaints.push(format!("{name} at the top level"));
        }
    }
    for file in markdown(root) {
        let text = fs::read_to_string(&file).unwrap();
        // A merge once dropped the beginning of a page, and nothing told.
        if !text.starts_with("# ") || !text.ends_with('\n') {
            complaints.push(format!("{} lacks its beginning or end", file.display()));
        }
        let mut is_code = false;
        for (number, line) in text.lines().enumerate() {
            if line.starts_with("```") {
                is_code = !is_code;
            }
            let is_table = line.starts_with('|');
            if !is_code && !is_table && has_two_sentences(line) {
                complaints.push(format!("{}, line {}: {line}", file.display(), number + 1));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn the_tests_that_the_catalogue_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let catalogue = fs::read_to_string(root.join("docs/testing.md")).unwrap();
    let mut complaints = Vec::new();
    let mut count = 0;
    for name in catalogue.split('`') {
        let Some((file, test)) = name.split_once("::") else {
            continue;
        };
        count += 1;
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        if !source.contains(&format!("fn {test}(")) {
            complaints.push(name.to_owned());
        }
    }
    assert!(count > 100, "{count} tests are named");
    assert_none(&complaints);
}

#[test]
fn each_key_of_the_original_stands_in_the_document_of_the_migration() {
    // It named those only that have another effect here, so that nobody saw which of the others had been thought of.
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let keys = fs::read_to_string(docs.join("configuration.md")).unwrap();
    let migration = fs::read_to_string(docs.join("migration.md")).unwrap();
    let (_, keys) = keys.split_once("\n## Kafka's keys\n").unwrap();
    let (keys, _) = keys.split_once("\n## ").unwrap();
    let keys = keys.lines().filter_map(|line| line.strip_prefix("| `"));
    let keys: Vec<&str> = keys.filter_map(|line| line.split('`').next()).collect();
    assert_eq!(keys.len(), 29);
    let is_named = |key: &str| {
        let named = |rest| migration.contains(&format!("`{key}{rest}"));
        named("`") || named("=")
    };
    let complaints: Vec<String> = keys
        .into_iter()
        .filter(|key| !is_named(key))
        .map(str::to_owned)
        .collect();
    assert_none(&complaints);
}

#[test]
fn every_scenario_is_on_a_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let lists = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let mut complaints = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let source = fs::read_to_string(&path).unwrap();
        for function in source.split("\npub(crate) fn ").skip(1) {
            let (name, rest) = function.split_once('(').unwrap();
            if !rest.trim_start().starts_with("version: impl Version,\n) {")
                && !rest.starts_with("version: impl Version) {")
            {
                continue;
            }
            count += 1;
            if !lists.contains(&format!("scenarios::{file}::{name},\n")) {
                complaints.push(format!("{file}::{name} is played nowhere"));
            }
        }
    }
    assert!(count > 30, "{count} scenarios were found");
    assert_none(&complaints);
}

/// The first lines of functions that are too long: where the brace that ends one stands as far in as the line.
fn walls(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = text.lines().collect();
    let first_lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim_start().trim_start_matches("pub ");
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let line = line.strip_prefix("pub(super) ").unwrap_or(line);
        line.starts_with("fn ") || line.starts_with("const fn ")
    });
    first_lines.filter_map(move |(number, line)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let length = lines[number..].iter().position(|line| *line == end)?;
        (length >= LONGEST_FUNCTION).then(|| line.trim())
    })
}

/// A full stop, a blank and a capital within a line; abbreviations do not go on with a capital.
fn has_two_sentences(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.windows(4).any(|window| {
        window[0].is_ascii_lowercase()
            && window[1] == b'.'
            && window[2] == b' '
            && window[3].is_ascii_uppercase()
    })
}

fn markdown(root: &Path) -> Vec<PathBuf> {
    let mut files = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    files.retain(|file| file.exists());
    files
}
