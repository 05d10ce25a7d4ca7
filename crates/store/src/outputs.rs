// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output files of one command, opened together: where one of them cannot be written, no file is left that was not there before, and each
//! one that was there has its content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Why output files cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The system refuses one.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Two are one file.
    #[error("two outputs would write {}: name a separate file for each", path.display())]
    Same {
        /// Path of the second.
        path: PathBuf,
    },
}

impl OutputError {
    fn file(path: &Path, error: io::Error) -> Self {
        Self::File {
            path: path.into(),
            error,
        }
    }
}

/// Opens each of `paths` for writing, empty.
///
/// # Errors
/// One cannot be written, or two are the same file.
pub fn open(paths: &[&Path]) -> Result<Vec<File>, OutputError> {
    let mut made = Vec::new();
    let opened = whole(paths, &mut made).and_then(|files| empty(paths, files));
    if opened.is_err() {
        for path in made {
            // The error that is told is the first one.
            let _ = fs::remove_file(path);
        }
    }
    opened
}

/// Opens all with their content; `made`: those that were not there.
fn whole<'a>(paths: &[&'a Path], made: &mut Vec<&'a Path>) -> Result<Vec<File>, OutputError> {
    let mut files = Vec::with_capacity(paths.len());
    let mut names: Vec<PathBuf> = Vec::with_capacity(paths.len());
    for &path in paths {
        let (file, is_new) = one(path).map_err(|error| OutputError::file(path, error))?;
        if is_new {
            made.push(path);
        }
        // A file may have two names; a pipe may have none.
        let name = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        if names.contains(&name) {
            return Err(OutputError::Same { path: path.into() });
        }
        names.push(name);
        files.push(file);
    }
    Ok(files)
}

/// One file with its content, and whether it was not there.
fn one(path: &Path) -> io::Result<(File, bool)> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    match made {
        // Made where it is a link to no file.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map(|file| (file, false)),
        made => made.map(|file| (file, true)),
    }
}

/// The same files without their content. A device or a pipe has none.
fn empty(paths: &[&Path], files: Vec<File>) -> Result<Vec<File>, OutputError> {
    for (path, file) in paths.iter().zip(&files) {
        let emptied = file.metadata().and_then(|found| match found.is_file() {
            true => file.set_len(0),
            false => Ok(()),
        });
        emptied.map_err(|error| OutputError::file(path, error))?;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_made_and_emptied_only_where_all_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new, link, lost] =
            ["old", "new", "link", "no folder/lost"].map(|name| folder.path().join(name));
        fs::write(&old, "older").unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        for (last, words) in [
            (&lost, "lost: No such file"),
            (&new, "two outputs would write"),
            (&link, "two outputs would write"),
        ] {
            let paths = [&new, &old, last].map(|path| path.as_path());
            let error = open(&paths).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(!new.exists(), "{error}");
            assert_eq!(fs::read_to_string(&old).unwrap(), "older", "{error}");
        }
        let paths = [new.as_path(), old.as_path(), Path::new("/dev/null")];
        assert_eq!(open(&paths).unwrap().len(), 3);
        assert_eq!(fs::read(&old).unwrap().len(), 0);
        assert!(new.exists());
    }
}
