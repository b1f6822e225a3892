//! Exit codes and the error that carries one.
//!
//! In: any error, plus what it means for the caller of the program. Out: a process exit code. The
//! numbers are an interface that scripts lean on; they never change meaning.

use std::fmt;

/// What the program tells its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// A negative answer: a check found errors, nothing is loaded, there was nothing to confirm.
    Negative = 1,
    /// Wrong usage or input that can't be read.
    Usage = 2,
    /// The input has constructs that weir can't honour.
    Unsupported = 3,
    /// The kernel or a missing permission prevented it.
    Kernel = 4,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// An error with its exit code. The cause, when there is one, is the error it is attached to.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong, in one line.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An error without a cause.
pub fn failure(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Failure {
        exit,
        message: message.into(),
    })
}

/// Attaches an exit code and a sentence to whatever error there was.
pub trait OrExit<T> {
    /// Turns the error into a [`Failure`] whose cause is the original error.
    fn or_exit(self, exit: Exit, message: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit, message: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| {
            error.into().context(Failure {
                exit,
                message: message.into(),
            })
        })
    }
}

/// The exit code of an error; errors that nobody classified count as the kernel's.
pub fn code(error: &anyhow::Error) -> Exit {
    error
        .downcast_ref::<Failure>()
        .map_or(Exit::Kernel, |failure| failure.exit)
}

/// Our output could not be written. Only this may mean that its reader went away: a pipe to some
/// helper that breaks is an error like any other.
#[derive(Debug)]
pub struct OutputFailed(pub std::io::Error);

impl fmt::Display for OutputFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't write the output: {}", self.0)
    }
}

impl std::error::Error for OutputFailed {}

/// Whether the reader of our output went away, which is its right.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<OutputFailed>()
        .is_some_and(|failed| failed.0.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_failure_keeps_its_code_and_its_cause() {
        let cause: Result<(), Error> = Err(Error::from(ErrorKind::NotFound));
        let error = cause
            .or_exit(Exit::Usage, "can't read rules.v4")
            .unwrap_err();
        assert_eq!(code(&error), Exit::Usage);
        assert_eq!(
            format!("{error:#}"),
            "can't read rules.v4: entity not found"
        );
        assert!(!is_broken_pipe(&error));
    }

    #[test]
    fn only_a_broken_pipe_of_our_own_output_is_forgiven() {
        let broken = || Error::from(ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::new(OutputFailed(broken()))));
        assert!(is_broken_pipe(
            &anyhow::Error::new(OutputFailed(broken())).context("writing")
        ));
        let full = OutputFailed(Error::from(ErrorKind::StorageFull));
        assert!(!is_broken_pipe(&anyhow::Error::new(full)));
        let helper: Result<(), Error> = Err(broken());
        let helper = helper
            .or_exit(Exit::Kernel, "iptables-restore")
            .unwrap_err();
        assert!(!is_broken_pipe(&helper));
        assert_eq!(code(&anyhow::anyhow!("unclassified")), Exit::Kernel);
    }
}
