use crate::embedded::zookeeper::database::KnownWatches;
use crate::embedded::zookeeper::record_reader::MalformedRecord;
use crate::embedded::zookeeper::record_reader::RecordReader;
use crate::embedded::zookeeper::transaction::Operation;

/// Types of requests, and of what is inside a multi.
pub(super) mod op_code {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_ACL: i32 = 6;
    pub(crate) const SET_ACL: i32 = 7;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const GET_CHILDREN_2: i32 = 12;
    pub(crate) const CHECK: i32 = 13;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const SET_WATCHES: i32 = 101;
    pub(crate) const CLOSE_SESSION: i32 = -11;
    /// Of an error in the answer to a multi; also ends a multi.
    pub(crate) const ERROR: i32 = -1;
}

/// The first frame of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConnectRequest {
    /// Last transaction that the client saw.
    pub(super) last_zxid: i64,
    /// Milliseconds asked for.
    pub(super) timeout: i32,
    /// The session to go on with; `None` for a new one.
    pub(super) session: Option<i64>,
    pub(super) password: Vec<u8>,
    /// Clients before 3.4 do not say whether a server that only reads will do, and are not told.
    pub(super) speaks_of_read_only: bool,
}

impl ConnectRequest {
    pub(super) fn decode(frame: &[u8]) -> Result<Self, MalformedRecord> {
        let mut reader = RecordReader::new(frame);
        reader.i32("protocolVersion")?;
        Ok(Self {
            last_zxid: reader.i64("lastZxidSeen")?,
            timeout: reader.i32("timeOut")?,
            session: Some(reader.i64("sessionId")?).filter(|id| *id != 0),
            password: reader.buffer("passwd")?.unwrap_or_default().to_vec(),
            speaks_of_read_only: !reader.is_empty(),
        })
    }
}

/// What comes before every other request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestHeader {
    pub(super) xid: i32,
    pub(super) op_code: i32,
}

impl RequestHeader {
    pub(super) fn decode(reader: &mut RecordReader<'_>) -> Result<Self, MalformedRecord> {
        Ok(Self {
            xid: reader.i32("xid")?,
            op_code: reader.i32("type")?,
        })
    }
}

/// Everything that a server 3.4 can be asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Write(Operation),
    Multi(Vec<Operation>),
    Exists {
        path: String,
        watch: bool,
    },
    GetData {
        path: String,
        watch: bool,
    },
    GetAcl {
        path: String,
    },
    GetChildren {
        path: String,
        watch: bool,
    },
    GetChildren2 {
        path: String,
        watch: bool,
    },
    Sync {
        path: String,
    },
    Ping,
    Auth {
        scheme: String,
    },
    SetWatches(KnownWatches),
    CloseSession,
    /// A later version may know it.
    Unknown,
}

impl Request {
    /// Reads what follows the header.
    pub(super) fn decode(
        op_code: i32,
        reader: &mut RecordReader<'_>,
    ) -> Result<Self, MalformedRecord> {
        Ok(match op_code {
            op_code::CREATE | op_code::DELETE | op_code::SET_DATA | op_code::CHECK => {
                Self::Write(operation(op_code, reader)?)
            }
            op_code::SET_ACL => Self::Write(Operation::SetAcl {
                path: reader.string("path")?,
                acl: reader.acl("acl")?,
                version: version(reader)?,
            }),
            op_code::MULTI => Self::Multi(multi(reader)?),
            op_code::EXISTS => Self::Exists {
                path: reader.string("path")?,
                watch: reader.bool("watch")?,
            },
            op_code::GET_DATA => Self::GetData {
                path: reader.string("path")?,
                watch: reader.bool("watch")?,
            },
            op_code::GET_ACL => Self::GetAcl {
                path: reader.string("path")?,
            },
            op_code::GET_CHILDREN => Self::GetChildren {
                path: reader.string("path")?,
                watch: reader.bool("watch")?,
            },
            op_code::GET_CHILDREN_2 => Self::GetChildren2 {
                path: reader.string("path")?,
                watch: reader.bool("watch")?,
            },
            op_code::SYNC => Self::Sync {
                path: reader.string("path")?,
            },
            op_code::PING => Self::Ping,
            op_code::AUTH => {
                reader.i32("type")?;
                Self::Auth {
                    scheme: reader.string("scheme")?,
                }
            }
            op_code::SET_WATCHES => Self::SetWatches(KnownWatches {
                zxid: reader.i64("relativeZxid")?,
                data: reader.strings("dataWatches")?,
                exists: reader.strings("existWatches")?,
                children: reader.strings("childWatches")?,
            }),
            op_code::CLOSE_SESSION => Self::CloseSession,
            _ => Self::Unknown,
        })
    }
}

/// One that may stand alone or in a multi. The caller knows that it is one of these.
fn operation(op_code: i32, reader: &mut RecordReader<'_>) -> Result<Operation, MalformedRecord> {
    let path = reader.string("path")?;
    Ok(match op_code {
        op_code::CREATE => Operation::Create {
            path,
            data: data(reader)?,
            acl: reader.acl("acl")?,
            flags: reader.i32("flags")?,
        },
        op_code::DELETE => Operation::Delete {
            path,
            version: version(reader)?,
        },
        op_code::SET_DATA => Operation::SetData {
            path,
            data: data(reader)?,
            version: version(reader)?,
        },
        op_code::CHECK => Operation::Check {
            path,
            version: version(reader)?,
        },
        _ => return Err(MalformedRecord { field: "type" }),
    })
}

fn multi(reader: &mut RecordReader<'_>) -> Result<Vec<Operation>, MalformedRecord> {
    let mut operations = Vec::new();
    loop {
        let op_code = reader.i32("type")?;
        let is_done = reader.bool("done")?;
        reader.i32("err")?;
        if is_done {
            return Ok(operations);
        }
        operations.push(operation(op_code, reader)?);
    }
}

fn data(reader: &mut RecordReader<'_>) -> Result<Option<Vec<u8>>, MalformedRecord> {
    Ok(reader.buffer("data")?.map(<[u8]>::to_vec))
}

/// -1 stands for any.
fn version(reader: &mut RecordReader<'_>) -> Result<Option<i32>, MalformedRecord> {
    Ok(Some(reader.i32("version")?).filter(|version| *version != -1))
}
