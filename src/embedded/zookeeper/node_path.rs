use crate::embedded::zookeeper::node_error::NodeError;

/// The nodes that every server has, and that nobody may delete.
pub(super) const OWN_NODES: [&str; 3] = ["/", "/zookeeper", "/zookeeper/quota"];

/// The path of the parent, and the node's own name. The parent of a child of the root is the root.
pub(super) fn split(path: &str) -> Result<(&str, &str), NodeError> {
    if path.contains('\0') {
        return Err(NodeError::BadArguments);
    }
    match path.rsplit_once('/') {
        Some(("", name)) => Ok(("/", name)),
        Some(parts) => Ok(parts),
        None => Err(NodeError::BadArguments),
    }
}

/// Whether a node of this path may be created.
pub(super) fn is_valid(path: &str) -> bool {
    if path == "/" {
        return true;
    }
    let Some(names) = path.strip_prefix('/') else {
        return false;
    };
    let is_name = |name: &str| !["", ".", ".."].contains(&name);
    names.split('/').all(is_name) && path.chars().all(is_valid_character)
}

/// As in ZooKeeper 3.4: characters outside the basic plane are pairs of surrogates there, and
/// the ends of the ranges are off by one.
fn is_valid_character(character: char) -> bool {
    !matches!(
        character,
        '\0'..='\u{1e}'
            | '\u{80}'..='\u{9e}'
            | '\u{e000}'..='\u{f8fe}'
            | '\u{fff1}'..='\u{fffe}'
            | '\u{10000}'..
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clean_absolute_paths_are_valid() {
        for path in [
            "/",
            "/a",
            "/a/b.c",
            "/..a",
            "/a b",
            "/g_\u{ffee}",
            "/\u{e9}",
        ] {
            assert!(is_valid(path), "{path:?}");
        }
        for path in [
            "",
            "a",
            "/a/",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/a/..",
            "/a/./b",
            "/\0",
            "/\u{1}",
            "/\u{80}",
            "/\u{e001}",
            "/\u{1f600}",
        ] {
            assert!(!is_valid(path), "{path:?}");
        }
    }

    #[test]
    fn a_path_has_a_parent_and_a_name() {
        assert_eq!(split("/a/b"), Ok(("/a", "b")));
        assert_eq!(split("/a"), Ok(("/", "a")));
        assert_eq!(split("a"), Err(NodeError::BadArguments));
        assert_eq!(split("/a\0"), Err(NodeError::BadArguments));
    }
}
