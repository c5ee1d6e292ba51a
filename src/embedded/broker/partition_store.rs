//! The files of one partition.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use bytes::Bytes;

use crate::embedded::broker::partition_log::PartitionLog;
use crate::embedded::broker::partition_log::StoredEntry;
use crate::protocol::EntryCursor;
use crate::protocol::OuterEntries;

/// A log in a folder: a file for each segment, named by its base offset, with the entries as they are in a message set.
///
/// Files only grow, or are replaced as a whole, so that an end of the process at any moment leaves at worst a cut
/// entry at the end of one.
#[derive(Clone, Debug)]
pub(super) struct PartitionStore {
    folder: PathBuf,
    /// By base offset; `None` where the content is not known, and the file has to be replaced.
    files: BTreeMap<i64, Option<Written>>,
}

/// What a file has. Entries are never changed in memory, so the same bytes are known by their place there.
#[derive(Clone, Debug)]
struct Written {
    entries: usize,
    /// The first and the last one, if there are any.
    ends: Option<(Bytes, Bytes)>,
}

impl PartitionStore {
    /// For a new partition. What an earlier one of this name left behind is deleted.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(folder)?,
        }
        Ok(Self {
            folder: folder.to_owned(),
            files: BTreeMap::new(),
        })
    }

    /// Reads the log that the folder keeps, an empty one where there is none. Cut ends are taken off.
    pub(super) fn open(folder: &Path, segment_bytes: usize) -> io::Result<(Self, PartitionLog)> {
        fs::create_dir_all(folder)?;
        let mut bases = BTreeSet::new();
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            match base_offset(&path) {
                Some(base) => drop(bases.insert(base)),
                None => log::warn!("{} is not a segment", path.display()),
            }
        }
        let mut store = Self {
            folder: folder.to_owned(),
            files: bases.iter().map(|base| (*base, None)).collect(),
        };
        let mut segments = Vec::new();
        for base in &bases {
            let following = bases.range(base.saturating_add(1)..).next().copied();
            segments.push(store.read(*base, following)?);
        }
        let log = PartitionLog::restored(segments, segment_bytes);
        store.save(&log)?;
        Ok((store, log))
    }

    /// Brings the files to what `log` is now.
    pub(super) fn save(&mut self, log: &PartitionLog) -> io::Result<()> {
        let mut gone: BTreeSet<i64> = self.files.keys().copied().collect();
        for (base, entries) in log.segments() {
            gone.remove(&base);
            self.save_segment(base, entries)?;
        }
        // Last, and the newest first: a file too many is made good when the log is read.
        for base in gone.into_iter().rev() {
            fs::remove_file(self.file(base))?;
            self.files.remove(&base);
        }
        Ok(())
    }

    /// Has everything written again at the next [`save`](Self::save), for a log that was changed within.
    pub(super) fn distrust(&mut self) {
        self.files.values_mut().for_each(|written| *written = None);
    }

    fn save_segment(&mut self, base: i64, entries: &[StoredEntry]) -> io::Result<()> {
        let known = self.files.get(&base).and_then(Option::as_ref);
        let known = known.filter(|written| written.is_begin_of(entries));
        let added = known.and_then(|written| entries.get(written.entries..));
        if added.is_some_and(<[_]>::is_empty) {
            return Ok(());
        }
        let path = self.file(base);
        self.files.insert(base, None);
        match added {
            Some(added) => {
                let mut file = fs::OpenOptions::new().append(true).open(path)?;
                file.write_all(&joined(added))?;
            }
            None => {
                let replacement = path.with_extension("new");
                fs::write(&replacement, joined(entries))?;
                fs::rename(replacement, path)?;
            }
        }
        self.files.insert(base, Some(Written::of(entries)));
        Ok(())
    }

    /// The entries of a file below the base offset of the `following` one, which alone counts where the two overlap.
    fn read(
        &mut self,
        base: i64,
        following: Option<i64>,
    ) -> io::Result<(i64, Vec<StoredEntry>, SystemTime)> {
        let path = self.file(base);
        let modified = fs::metadata(&path)?.modified()?;
        let bytes = Bytes::from(fs::read(&path)?);
        let mut entries = whole_entries(&bytes, base, following.is_none());
        let kept: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        if kept < bytes.len() {
            let path = path.display();
            log::warn!("{path} has a damaged end: {kept} of {} bytes", bytes.len());
        }
        entries.retain(|entry| following.is_none_or(|following| entry.last_offset < following));
        let is_intact = entries.iter().map(|entry| entry.bytes.len()).sum::<usize>() == bytes.len();
        if is_intact {
            self.files.insert(base, Some(Written::of(&entries)));
        }
        Ok((base, entries, modified))
    }

    fn file(&self, base: i64) -> PathBuf {
        self.folder.join(format!("{base:020}.log"))
    }
}

impl Written {
    fn of(entries: &[StoredEntry]) -> Self {
        let ends = entries.first().zip(entries.last());
        Self {
            entries: entries.len(),
            ends: ends.map(|(first, last)| (first.bytes.clone(), last.bytes.clone())),
        }
    }

    fn is_begin_of(&self, entries: &[StoredEntry]) -> bool {
        let is_same = |index: usize, bytes: &Bytes| {
            let entry = entries.get(index);
            entry.is_some_and(|entry| {
                let entry = &entry.bytes;
                entry.as_ptr() == bytes.as_ptr() && entry.len() == bytes.len()
            })
        };
        let last = self.entries.saturating_sub(1);
        let ends = self.ends.as_ref();
        ends.is_none_or(|(first, end)| is_same(0, first) && is_same(last, end))
    }
}

/// The entries up to the first one that is cut or whose offset goes back. At the end of the log those with a wrong
/// checksum go as well: they were being written when the machine stopped.
fn whole_entries(bytes: &Bytes, base: i64, is_last: bool) -> Vec<StoredEntry> {
    let mut entries = Vec::new();
    let mut sound = 0;
    let mut next = base;
    for entry in OuterEntries::new(bytes) {
        if entry.offset < next {
            break;
        }
        let end = entry.position.saturating_add(entry.size());
        let stored = StoredEntry {
            last_offset: entry.last_offset(),
            bytes: bytes.slice(entry.position..end),
        };
        next = stored.last_offset.saturating_add(1);
        let is_sound = is_sound(&stored.bytes);
        entries.push(stored);
        if is_sound {
            sound = entries.len();
        }
    }
    if is_last {
        entries.truncate(sound);
    }
    entries
}

/// Whether the checksum of an entry is right, and what it says of itself possible.
fn is_sound(entry: &[u8]) -> bool {
    let mut cursor = EntryCursor::outer();
    while let Some(found) = cursor.next(entry) {
        if found.is_err() {
            return false;
        }
    }
    true
}

fn joined(entries: &[StoredEntry]) -> Vec<u8> {
    let parts: Vec<&[u8]> = entries.iter().map(|entry| &entry.bytes[..]).collect();
    parts.concat()
}

fn base_offset(path: &Path) -> Option<i64> {
    let is_segment = path.extension().is_some_and(|extension| extension == "log");
    let name = path.file_stem().filter(|_| is_segment)?;
    name.to_str()?.parse().ok().filter(|base| *base >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::MessageSetBuilder;

    const SEGMENT: usize = 100;

    fn entry(offset: i64) -> StoredEntry {
        let mut builder = MessageSetBuilder::new();
        let value = format!("message {offset:02}");
        builder
            .message(offset, None, Some(value.as_bytes()))
            .unwrap();
        StoredEntry {
            last_offset: offset,
            bytes: Bytes::copy_from_slice(builder.build().unwrap().as_bytes()),
        }
    }

    /// Two entries to a segment.
    fn filled(store: &mut PartitionStore, offsets: std::ops::Range<i64>) -> PartitionLog {
        let mut log = PartitionLog::starting_at(offsets.start, SEGMENT);
        for offset in offsets {
            log.append(&[entry(offset)], offset + 1);
            store.save(&log).unwrap();
        }
        log
    }

    fn content(log: &PartitionLog) -> (i64, i64, Vec<u8>) {
        let entries = log.entries_from(log.log_start());
        (log.log_start(), log.log_end(), joined(&entries))
    }

    fn files(folder: &Path) -> Vec<String> {
        let files = fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_log_is_read_as_it_was_after_every_kind_of_change() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("orders/0");
        let mut store = PartitionStore::create(&folder).unwrap();
        let mut log = filled(&mut store, 0..7);
        let mut check = |log: &PartitionLog| {
            store.save(log).unwrap();
            let (_, read) = PartitionStore::open(&folder, SEGMENT).unwrap();
            assert_eq!(content(&read), content(log));
            assert_eq!(files(&folder).len(), log.segments().count());
        };
        check(&log);
        log.set_log_start(1);
        check(&log);
        log.truncate(5);
        check(&log);
        log.append(&[entry(5)], 6);
        check(&log);
        log.retain(Some(SEGMENT), None);
        check(&log);
        log.set_log_start(20);
        check(&log);
    }

    #[test]
    fn a_new_partition_begins_without_what_an_earlier_one_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = PartitionStore::create(folder.path()).unwrap();
        filled(&mut store, 0..3);
        PartitionStore::create(folder.path()).unwrap();
        let (_, log) = PartitionStore::open(folder.path(), SEGMENT).unwrap();
        assert_eq!(content(&log), (0, 0, Vec::new()));
    }

    #[test]
    fn an_end_that_was_cut_anywhere_is_taken_off_and_the_log_goes_on() {
        let length = entry(0).bytes.len();
        for cut in 1..=length {
            let folder = tempfile::tempdir().unwrap();
            let mut store = PartitionStore::create(folder.path()).unwrap();
            filled(&mut store, 0..4);
            let last = folder.path().join(format!("{:020}.log", 2));
            let bytes = fs::read(&last).unwrap();
            fs::write(&last, &bytes[..bytes.len() - cut]).unwrap();
            let (mut store, mut log) = PartitionStore::open(folder.path(), SEGMENT).unwrap();
            assert_eq!((log.log_start(), log.log_end()), (0, 3), "{cut} cut");
            log.append(&[entry(3)], 4);
            store.save(&log).unwrap();
            assert_eq!(fs::read(&last).unwrap(), bytes);
        }
    }

    #[test]
    fn a_last_entry_that_was_half_written_goes_and_one_damaged_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = PartitionStore::create(folder.path()).unwrap();
        filled(&mut store, 0..4);
        for base in [0, 2] {
            let file = folder.path().join(format!("{base:020}.log"));
            let mut bytes = fs::read(&file).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(&file, bytes).unwrap();
        }
        let (_, log) = PartitionStore::open(folder.path(), SEGMENT).unwrap();
        assert_eq!((log.log_end(), log.entries_from(0).len()), (3, 3));
    }

    #[test]
    fn a_file_too_many_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = PartitionStore::create(folder.path()).unwrap();
        let log = filled(&mut store, 0..4);
        let all = joined(&log.entries_from(0));
        fs::write(folder.path().join(format!("{:020}.log", 0)), all).unwrap();
        fs::write(folder.path().join("notes.txt"), "x").unwrap();
        let (_, read) = PartitionStore::open(folder.path(), SEGMENT).unwrap();
        assert_eq!(content(&read), content(&log));
    }

    #[test]
    fn a_write_that_failed_is_made_good_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0");
        let mut store = PartitionStore::create(&path).unwrap();
        let mut log = filled(&mut store, 0..1);
        fs::remove_dir_all(&path).unwrap();
        log.append(&[entry(1)], 2);
        store.save(&log).unwrap_err();
        fs::create_dir(&path).unwrap();
        store.save(&log).unwrap();
        let (_, read) = PartitionStore::open(&path, SEGMENT).unwrap();
        assert_eq!(content(&read), content(&log));
    }
}
