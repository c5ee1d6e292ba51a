/// What the server knows about a node besides its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Transaction that created the node.
    pub czxid: i64,
    /// Transaction that last wrote its data.
    pub mzxid: i64,
    /// Transaction that last created or deleted a child.
    pub pzxid: i64,
    /// When it was created, in milliseconds since 1970.
    pub ctime: i64,
    /// When its data was last written, in milliseconds since 1970.
    pub mtime: i64,
    /// Number of writes of its data after its creation.
    pub version: i32,
    /// Number of children created and deleted.
    pub cversion: i32,
    /// Number of writes of its access list.
    pub aversion: i32,
    /// Session that an ephemeral node belongs to; `None` for a persistent node.
    pub ephemeral_owner: Option<i64>,
    /// Bytes of data.
    pub data_length: i32,
    /// Children it has now.
    pub num_children: i32,
}
