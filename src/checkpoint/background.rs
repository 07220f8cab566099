//! A save on a thread of its own, while training goes on up to its next update.
//!
//! Nothing is copied: the thread reads the very tensors that the next update writes, so whoever changes a weight or a
//! moment calls [`BackgroundSave::finish`] first. A save that has begun is never given up: dropping it waits for it.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use super::CheckpointError;

/// `nice`'s largest increment.
const LOWEST_PRIORITY: i32 = 19;

/// At most one save under way.
#[derive(Debug, Default)]
pub struct BackgroundSave {
    thread: Option<JoinHandle<Result<PathBuf, CheckpointError>>>,
}

impl BackgroundSave {
    /// Begins `save`, which returns the checkpoint's directory, after the save before it has ended.
    ///
    /// # Errors
    /// Those of the save before it; `save` has not begun then.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn begin(
        &mut self,
        save: impl FnOnce() -> Result<PathBuf, CheckpointError> + Send + 'static,
    ) -> Result<(), CheckpointError> {
        self.finish()?;
        self.thread = Some(thread::spawn(move || {
            // It gives way to generation; whoever waits in `finish` leaves it the processor.
            if let Err(error) = rustix::process::nice(LOWEST_PRIORITY) {
                tracing::debug!("a save runs at normal priority: {error}");
            }
            save()
        }));
        Ok(())
    }

    /// Waits for the save under way, if there is one, and returns its directory.
    ///
    /// # Errors
    /// Those of the save.
    pub fn finish(&mut self) -> Result<Option<PathBuf>, CheckpointError> {
        let Some(thread) = self.thread.take() else { return Ok(None) };
        match thread.join() {
            Ok(saved) => saved.map(Some),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for BackgroundSave {
    fn drop(&mut self) {
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the last checkpoint is not saved: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;

    fn full(path: &str) -> Result<PathBuf, CheckpointError> {
        Err(CheckpointError::io("write", Path::new(path))(io::Error::from(io::ErrorKind::StorageFull)))
    }

    #[test]
    fn it_goes_on_beside_its_caller_and_ends_before_finish() {
        let (go, wait) = mpsc::channel::<()>();
        let mut save = BackgroundSave::default();
        assert_eq!(save.finish().unwrap(), None);
        // Only what comes after `begin` lets it end: a save in the foreground would never return.
        save.begin(move || {
            wait.recv().unwrap();
            Ok("step_000001".into())
        })
        .unwrap();
        go.send(()).unwrap();
        assert_eq!(save.finish().unwrap(), Some("step_000001".into()));
        assert_eq!(save.finish().unwrap(), None);
    }

    #[test]
    fn a_failed_save_is_the_next_callers_error() {
        let mut save = BackgroundSave::default();
        save.begin(|| full("first")).unwrap();
        let error = save.begin(|| Ok("second".into())).unwrap_err();
        assert!(error.to_string().contains("first"), "{error}");
        assert_eq!(save.finish().unwrap(), None);
    }

    #[test]
    fn dropping_it_waits() {
        let (done, ended) = mpsc::channel();
        let mut save = BackgroundSave::default();
        save.begin(move || {
            thread::sleep(std::time::Duration::from_millis(30));
            done.send(()).unwrap();
            full("third")
        })
        .unwrap();
        drop(save);
        assert!(ended.try_recv().is_ok());
    }
}
