//! A save on a thread of its own, while training goes on up to its next update.
//!
//! Nothing is copied: the thread reads the very tensors that the next update writes, so whoever changes a weight or a
//! moment calls [`BackgroundSave::finish`] first. A save that has begun is never given up: dropping it waits for it. Where
//! the system has no thread left, the save happens at once, in its caller's.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::CheckpointError;
use crate::priority::give_way;

type Saved = Result<PathBuf, CheckpointError>;

/// At most one save under way.
#[derive(Debug, Default)]
pub struct BackgroundSave {
    begun: Option<Begun>,
}

#[derive(Debug)]
enum Begun {
    UnderWay(JoinHandle<Saved>),
    Ended(Saved),
}

impl BackgroundSave {
    /// Begins `save`, which returns the checkpoint's directory, after the save before it has ended.
    ///
    /// # Errors
    /// Those of the save before it; `save` has not begun then.
    pub fn begin(&mut self, save: impl FnOnce() -> Saved + Send + 'static) -> Result<(), CheckpointError> {
        self.begin_on(thread::Builder::new().name("save".to_owned()), save)
    }

    fn begin_on(
        &mut self,
        builder: thread::Builder,
        save: impl FnOnce() -> Saved + Send + 'static,
    ) -> Result<(), CheckpointError> {
        self.finish()?;
        // Handed over once there is a thread: one that can't be started would take the save with it.
        let (hand_over, handed) = mpsc::sync_channel(1);
        let thread = builder.spawn(move || {
            give_way("a save");
            let save: Box<dyn FnOnce() -> Saved + Send> = handed.recv().expect("a save follows its thread");
            save()
        });
        self.begun = Some(match thread {
            Ok(thread) => {
                hand_over.send(Box::new(save)).expect("the thread waits for its save");
                Begun::UnderWay(thread)
            }
            Err(error) => {
                tracing::warn!("no thread for a checkpoint ({error}): the run waits until it is written");
                Begun::Ended(save())
            }
        });
        Ok(())
    }

    /// Waits for the save under way, if there is one, and returns its directory.
    ///
    /// # Errors
    /// Those of the save.
    pub fn finish(&mut self) -> Result<Option<PathBuf>, CheckpointError> {
        match self.begun.take() {
            None => Ok(None),
            Some(Begun::Ended(saved)) => saved.map(Some),
            Some(Begun::UnderWay(thread)) => match thread.join() {
                Ok(saved) => saved.map(Some),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

impl Drop for BackgroundSave {
    fn drop(&mut self) {
        let saved = match self.begun.take() {
            // A panic has been reported where it happened.
            Some(Begun::UnderWay(thread)) => thread.join().ok(),
            Some(Begun::Ended(saved)) => Some(saved),
            None => None,
        };
        if let Some(Err(error)) = saved {
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

    fn full(path: &str) -> Saved {
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
    fn without_a_thread_the_save_happens_at_once() {
        // More than there are addresses: no such thread can be started.
        let none_left = || thread::Builder::new().stack_size(1 << 50);
        let mut save = BackgroundSave::default();
        let caller = thread::current().id();
        let here = move || {
            assert_eq!(thread::current().id(), caller);
            Ok("step_000001".into())
        };
        save.begin_on(none_left(), here).unwrap();
        assert_eq!(save.finish().unwrap(), Some("step_000001".into()));
        save.begin_on(none_left(), || full("first")).unwrap();
        let error = save.finish().unwrap_err();
        assert!(error.to_string().contains("first"), "{error}");
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
