//! A model on a thread of its own, asked over a channel.
//!
//! A tensor stays on its thread, and rewards are scored on many: so one thread loads the model, answers one question
//! after the other, and ends with the last of its askers. Nothing here knows what is asked.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

use anyhow::{Context, Result};

/// The askers' end.
pub(super) struct ModelThread<Question, Answer> {
    asked: Sender<Asked<Question, Answer>>,
}

struct Asked<Question, Answer> {
    question: Question,
    answer: SyncSender<Answer>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
    /// Others, or the model itself, took too long.
    #[error("the model is still at work")]
    Late,
    /// The thread panicked.
    #[error("the model's thread has ended")]
    Ended,
}

impl<Question: Send + 'static, Answer: Send + 'static> ModelThread<Question, Answer> {
    /// Starts `body`, which loads its model and then serves; returns once it does.
    ///
    /// # Errors
    /// What `body` reports instead of serving.
    pub(super) fn start(
        name: &str,
        body: impl FnOnce(Server<Question, Answer>) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (asked, inbox) = channel();
        let (loaded, outcome) = sync_channel(1);
        let server = Server { inbox, loaded: loaded.clone() };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                if let Err(error) = body(server) {
                    // A failed send means that whoever asked has gone.
                    drop(loaded.send(Err(error)));
                }
            })
            .with_context(|| format!("starting the thread of the {name}"))?;
        outcome.recv().with_context(|| format!("the thread of the {name} ended while loading"))??;
        Ok(Self { asked })
    }

    /// The model's answer, before `deadline` where there is one.
    ///
    /// # Errors
    /// [`Unanswered`] says why there is none.
    pub(super) fn ask(&self, question: Question, deadline: Option<Instant>) -> Result<Answer, Unanswered> {
        let (answer, answered) = sync_channel(1);
        self.asked.send(Asked { question, answer }).map_err(|_| Unanswered::Ended)?;
        match deadline {
            None => answered.recv().map_err(|_| Unanswered::Ended),
            Some(deadline) => {
                answered.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
                    RecvTimeoutError::Timeout => Unanswered::Late,
                    RecvTimeoutError::Disconnected => Unanswered::Ended,
                })
            }
        }
    }
}

/// The model's end.
pub(super) struct Server<Question, Answer> {
    inbox: Receiver<Asked<Question, Answer>>,
    loaded: SyncSender<Result<()>>,
}

impl<Question, Answer> Server<Question, Answer> {
    /// Says that the model is loaded, and answers until nobody is left to ask.
    pub(super) fn serve(self, mut answer: impl FnMut(Question) -> Answer) {
        if self.loaded.send(Ok(())).is_err() {
            return;
        }
        for asked in self.inbox {
            // The asker may have given up; its answer is then nobody's.
            drop(asked.answer.send(answer(asked.question)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Past this something hangs.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn answers_are_those_of_their_questions() {
        let thread = ModelThread::start("doubler", |server| {
            server.serve(|number: u64| 2 * number);
            Ok(())
        })
        .unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let thread = &thread;
                scope.spawn(move || assert_eq!(thread.ask(number, None), Ok(2 * number)));
            }
        });
    }

    #[test]
    fn what_keeps_a_model_from_loading_is_told_to_who_starts_it() {
        let failed = ModelThread::<(), ()>::start("broken", |_| anyhow::bail!("no such file"));
        assert_eq!(failed.err().expect("it does not load").to_string(), "no such file");
        let crashed = ModelThread::<(), ()>::start("crashed", |_| panic!("out of memory"));
        assert!(crashed.err().expect("it does not load").to_string().contains("crashed ended while loading"));
    }

    #[test]
    fn a_deadline_holds_while_others_are_served_and_a_dead_thread_is_said() {
        let (release, held) = channel::<()>();
        let thread = ModelThread::start("slow", move |server| {
            server.serve(|()| held.recv().expect("it is released once"));
            Ok(())
        })
        .unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(10));
        assert_eq!(
            [thread.ask((), soon()), thread.ask((), soon()), thread.ask((), soon())],
            [Err(Unanswered::Late); 3]
        );
        drop(release);
        assert_eq!(thread.ask((), Some(Instant::now() + PATIENCE)), Err(Unanswered::Ended));
    }
}
