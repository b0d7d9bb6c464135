"""One exception class per boundary. Every message says what is wrong, where, and what to do about it.

The command line prints the message alone and exits with 2; `--debug` shows the traceback.
"""


class RlooVerifyError(Exception):
    """Base of every error that a user can cause or mend."""


class ConfigError(RlooVerifyError):
    """A config file or a command-line override is wrong."""


class TaskError(RlooVerifyError):
    """A task folder, its data or its checker cannot be used."""


class PromptTooLongError(TaskError):
    """A prompt has more tokens than `sample.max_prompt_tokens`."""


class ModelError(RlooVerifyError):
    """A model or tokenizer cannot be found, loaded or used for what was asked."""


class PolicyError(RlooVerifyError):
    """An engine is missing, has an unsupported version, or broke while drawing completions."""


class SyncError(RlooVerifyError):
    """After a weight sync the policy and the learner do not compute the same log-probs."""


class OffPolicyError(RlooVerifyError):
    """Completions are stale, or sampler and learner disagree above `policy.max_logprob_gap`."""


class VerifyError(RlooVerifyError):
    """Verification as a whole cannot go on, for instance too large a share of ERROR verdicts."""


class RunError(RlooVerifyError):
    """A run folder cannot be used: locked by another process, or made by a different config."""


class ParallelError(RlooVerifyError):
    """Another process of a data-parallel run ended, failed, or cannot be reached."""


class StorageError(RlooVerifyError):
    """The disk is full or a file of the run cannot be written."""


class SandboxError(RlooVerifyError):
    """No sandbox can be started, or an image is missing and cannot be made."""


class FormatError(RlooVerifyError):
    """A file of saved generations is in no known format, or does not fit the task or the file it is compared with."""
