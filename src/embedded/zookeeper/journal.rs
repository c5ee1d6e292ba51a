use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use crate::embedded::zookeeper::change::Change;
use crate::embedded::zookeeper::data_tree::DataTree;
use crate::embedded::zookeeper::node_path;
use crate::embedded::zookeeper::node_record;
use crate::embedded::zookeeper::record_reader::RecordReader;
use crate::embedded::zookeeper::record_writer::RecordWriter;

/// What the file begins with.
const MAGIC: &[u8; 8] = b"KZCTREE1";

/// Bytes of a length, and of a checksum.
const WORD: usize = size_of::<u32>();

/// The file is written anew when it has so many bytes more than twice what the nodes need.
const SLACK: u64 = 4 << 20;

/// The persistent nodes in a file: first all of them, and then what each transaction changed.
///
/// Each transaction is one frame (length, record, CRC-32) that counts as a whole or not at all, so an end of the
/// process in the middle of a write loses nothing but the transaction that nobody was told of.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Size at which the file is written anew.
    limit: u64,
}

impl Journal {
    /// Reads the nodes, where the file exists, and writes it anew. The number from which transactions count on is
    /// above all of earlier lives, those included that changed nothing here: else clients that saw them are refused.
    pub(super) fn open(folder: &Path) -> io::Result<(Self, DataTree, i64)> {
        fs::create_dir_all(folder)?;
        let path = folder.join("tree.journal");
        let mut tree = DataTree::new();
        let zxid = match fs::read(&path) {
            Ok(bytes) => first_of_next_life(load(&bytes, &mut tree)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let (file, bytes) = write_anew(&path, &tree, zxid)?;
        let journal = Self {
            path,
            file,
            bytes,
            limit: limit(bytes),
        };
        Ok((journal, tree, zxid))
    }

    /// Keeps what a transaction has changed in `tree`. After an error nothing of it is kept.
    pub(super) fn append(
        &mut self,
        tree: &DataTree,
        zxid: i64,
        changes: &[Change],
    ) -> io::Result<()> {
        let mut record = RecordWriter::new().i64(zxid);
        let mut is_empty = true;
        for change in changes {
            for part in node_record::parts_of(tree, change) {
                record = part.write(record);
                is_empty = false;
            }
        }
        if is_empty {
            return Ok(());
        }
        if self.bytes > self.limit {
            let (file, bytes) = write_anew(&self.path, tree, zxid)?;
            self.file = file;
            self.bytes = bytes;
            self.limit = limit(bytes);
            return Ok(());
        }
        let frame = frame(record);
        let written = self.file.write_all(&frame);
        if written.is_err() {
            // Where not even this works, the next transaction writes all anew.
            if self.file.set_len(self.bytes).is_err() {
                self.limit = 0;
            }
            return written;
        }
        let length = u64::try_from(frame.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        Ok(())
    }
}

/// As in ZooKeeper, the upper half of a number counts the lives.
fn first_of_next_life(zxid: i64) -> i64 {
    (zxid >> 32).saturating_add(1) << 32
}

fn limit(bytes: u64) -> u64 {
    bytes.saturating_mul(2).saturating_add(SLACK)
}

/// Replaces the file by one with the nodes of `tree` alone.
fn write_anew(path: &Path, tree: &DataTree, zxid: i64) -> io::Result<(File, u64)> {
    let mut bytes = MAGIC.to_vec();
    for part in node_record::parts_of_all(tree) {
        let record = part.write(RecordWriter::new().i64(zxid));
        bytes.extend_from_slice(&frame(record));
    }
    let replacement = path.with_extension("new");
    fs::write(&replacement, &bytes)?;
    fs::rename(&replacement, path)?;
    let file = OpenOptions::new().append(true).open(path)?;
    Ok((file, u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
}

fn frame(record: RecordWriter) -> Vec<u8> {
    let mut frame = record.finish();
    let checksum = crc32fast::hash(frame.get(WORD..).unwrap_or_default());
    frame.extend_from_slice(&checksum.to_be_bytes());
    frame
}

/// Fills the tree, and returns the number of the last transaction.
fn load(bytes: &[u8], tree: &mut DataTree) -> io::Result<i64> {
    let invalid = |what: &str, rest: &[u8]| {
        let position = bytes.len().saturating_sub(rest.len());
        let text = format!("{what} at byte {position} of the journal");
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    let mut rest = match bytes.strip_prefix(MAGIC) {
        Some(rest) => rest,
        // It was being created.
        None if MAGIC.starts_with(bytes) => return Ok(0),
        None => return Err(invalid("no journal begins", bytes)),
    };
    let mut last = 0;
    while let Some((record, checksum, after)) = split_frame(rest) {
        let is_sound = crc32fast::hash(record) == checksum;
        if !is_sound && !after.is_empty() {
            return Err(invalid("damage", rest));
        }
        if !is_sound {
            break;
        }
        let zxid = replay(record, tree).ok_or_else(|| invalid("nonsense", rest))?;
        last = zxid.max(last);
        rest = after;
    }
    if !rest.is_empty() {
        log::warn!("the journal of nodes ended in {} stray bytes", rest.len());
    }
    Ok(last)
}

/// The record, its checksum, and what comes after; `None` at the end and for a frame that is cut.
fn split_frame(bytes: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (record, rest) = rest.split_at_checked(length)?;
    let (checksum, rest) = rest.split_first_chunk()?;
    Some((record, u32::from_be_bytes(*checksum), rest))
}

/// Carries a transaction out again; `None` when it makes no sense.
fn replay(record: &[u8], tree: &mut DataTree) -> Option<i64> {
    let mut record = RecordReader::new(record);
    let zxid = record.i64("zxid").ok()?;
    while !record.is_empty() {
        let part = node_record::Part::read(&mut record).ok()?;
        if !node_path::is_valid(part.path()) || !part.apply(tree) {
            return None;
        }
    }
    Some(zxid)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::embedded::zookeeper::database::Database;
    use crate::embedded::zookeeper::transaction::Acl;
    use crate::embedded::zookeeper::transaction::Moment;
    use crate::embedded::zookeeper::transaction::Operation;

    fn operation() -> impl Strategy<Value = Operation> {
        let path = "/[ab](/[ab](/[ab])?)?";
        let kind = prop_oneof![5 => Just(0), 3 => Just(1), 2 => Just(2), 1 => Just(3)];
        (kind, path, 0..4_i32, any::<u8>()).prop_map(|(kind, path, flags, byte)| match kind {
            0 => Operation::Create {
                path,
                data: Some(vec![byte]),
                acl: Acl::open(),
                flags,
            },
            1 => Operation::Delete {
                path,
                version: None,
            },
            2 => Operation::SetData {
                path,
                data: (byte > 9).then(|| vec![byte, byte]),
                version: None,
            },
            _ => Operation::SetAcl {
                path,
                acl: Acl::open(),
                version: None,
            },
        })
    }

    /// All that is to be kept.
    fn kept(tree: &DataTree) -> Vec<Vec<u8>> {
        let parts = node_record::parts_of_all(tree).into_iter();
        parts
            .map(|part| part.write(RecordWriter::new()).finish())
            .collect()
    }

    /// A journal with these transactions; returns what was to be kept after each of them, and the size of the file.
    fn written(folder: &Path, transactions: &[Vec<Operation>]) -> Vec<(Vec<Vec<u8>>, usize)> {
        let mut database = Database::open(Some(folder)).unwrap();
        let session = database.sessions.open(None);
        let mut states = Vec::new();
        for operations in transactions {
            let _ = database.write_all(session, operations.clone());
            let size = fs::read(folder.join("tree.journal")).unwrap().len();
            states.push((kept(&database.tree), size));
        }
        states
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_tree_comes_back_as_it_was_without_its_ephemeral_nodes(
            transactions in vec(vec(operation(), 1..5), 1..30),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let states = written(folder.path(), &transactions);
            for _ in 0..2 {
                let (_, tree, _) = Journal::open(folder.path()).unwrap();
                prop_assert_eq!(&kept(&tree), &states.last().unwrap().0);
            }
        }

        #[test]
        fn a_journal_cut_anywhere_gives_the_state_after_the_last_whole_transaction(
            transactions in vec(vec(operation(), 1..5), 2..10),
            cut in any::<proptest::sample::Index>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut states = written(folder.path(), &transactions);
            states.insert(0, (kept(&DataTree::new()), 0));
            let file = folder.path().join("tree.journal");
            let mut bytes = fs::read(&file).unwrap();
            bytes.truncate(cut.index(bytes.len()));
            fs::write(&file, &bytes).unwrap();
            let (_, tree, _) = Journal::open(folder.path()).unwrap();
            let whole = states.iter().rfind(|(_, size)| *size <= bytes.len());
            prop_assert_eq!(&kept(&tree), &whole.unwrap().0);
        }
    }

    fn create(path: &str) -> Vec<Operation> {
        let mode = crate::embedded::CreateMode::Persistent;
        vec![Operation::create(path, b"data", mode)]
    }

    #[test]
    fn damage_before_the_end_and_foreign_files_are_told_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), &[create("/a"), create("/b")]);
        let file = folder.path().join("tree.journal");
        let sound = fs::read(&file).unwrap();
        let mut damaged = sound.clone();
        damaged[20] ^= 1;
        fs::write(&file, damaged).unwrap();
        let error = Journal::open(folder.path()).unwrap_err().to_string();
        assert_eq!(error, "damage at byte 8 of the journal");
        fs::write(&file, "something else").unwrap();
        let error = Journal::open(folder.path()).unwrap_err().to_string();
        assert_eq!(error, "no journal begins at byte 0 of the journal");
        let mut half_written = sound.clone();
        *half_written.last_mut().unwrap() ^= 1;
        fs::write(&file, half_written).unwrap();
        let (_, tree, _) = Journal::open(folder.path()).unwrap();
        assert!(tree.get("/a").is_ok() && tree.get("/b").is_err());
    }

    #[test]
    fn a_journal_does_not_grow_without_bound() {
        let folder = tempfile::tempdir().unwrap();
        let mut database = Database::open(Some(folder.path())).unwrap();
        let session = database.sessions.open(None);
        database.write_all(session, create("/a")).unwrap();
        let mut largest = 0;
        for round in 0..12_u8 {
            let set = Operation::SetData {
                path: String::from("/a"),
                data: Some(vec![round; 1 << 20]),
                version: None,
            };
            database.write_all(session, vec![set]).unwrap();
            let file = fs::metadata(folder.path().join("tree.journal")).unwrap();
            largest = file.len().max(largest);
        }
        assert!(largest < 9 << 20, "{largest}");
        drop(database);
        let (_, tree, zxid) = Journal::open(folder.path()).unwrap();
        assert_eq!(tree.get("/a").unwrap().data, Some(vec![11; 1 << 20]));
        assert_eq!(zxid, 1 << 32);
    }

    #[test]
    fn a_write_that_fails_is_refused_and_the_next_one_writes_all_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, mut tree, _) = Journal::open(folder.path()).unwrap();
        let mut change = |zxid, path| {
            let moment = Moment { zxid, time: 0 };
            let operation = create(path).remove(0);
            let (_, change) = tree.apply(operation, 1, moment).unwrap();
            (tree.clone(), [change])
        };
        let (one, changes) = change(1, "/a");
        // A handle that cannot write stands for a disk that is full.
        journal.file = File::open(&journal.path).unwrap();
        journal.append(&one, 1, &changes).unwrap_err();
        let (two, changes) = change(2, "/b");
        journal.append(&two, 2, &changes).unwrap();
        let (_, read, zxid) = Journal::open(folder.path()).unwrap();
        assert_eq!((kept(&read), zxid), (kept(&two), 1 << 32));
    }

    #[test]
    fn a_client_that_saw_the_last_transaction_is_never_ahead_of_the_next_server() {
        let folder = tempfile::tempdir().unwrap();
        let mut seen = -1;
        for _ in 0..3 {
            let mut database = Database::open(Some(folder.path())).unwrap();
            assert!(database.zxid() > seen);
            let session = database.sessions.open(None);
            let operation = Operation::Delete {
                path: String::from("/none"),
                version: None,
            };
            // It counts, and nothing of it is kept.
            database.write(session, operation).unwrap_err();
            seen = database.zxid();
        }
    }
}
