"""What a request to a bucket failed of, whoever the client is, and which of our errors that is.

Owns the one table of causes. Each client only says what it met, as a `Failure`; nothing that a
server or client wrote in prose is passed on, for it may quote credentials or content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from lakestore.errors import (
    AlreadyExistsError,
    InputError,
    LakeError,
    NotFoundError,
    StorageError,
    UnknownOutcomeError,
    UnsupportedStoreError,
)

Verb = Literal["write", "upload", "sign", "read", "list", "delete"]
"""To upload is to write under a name that is nobody else's, so that it may be sent again."""


class TransientError(StorageError):
    """The request did nothing, and may be sent again; `RetryingStore` does, and ends it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a request ended that did not do what it should."""

    code: str
    """The store's own code, or the name of the client's error where there was no answer."""
    status: int = 0
    """The status of the answer, 0 where there was none."""
    sent: bool = True
    """Whether the request may have reached the store."""


class Cause(Enum):
    """Why a request failed, told apart as far as a caller acts differently."""

    TAKEN = auto()
    CONTENDED = auto()
    NO_OBJECT = auto()
    NO_BUCKET = auto()
    NO_CREDENTIALS = auto()
    BAD_CREDENTIALS = auto()
    CLOCK = auto()
    FORBIDDEN = auto()
    ELSEWHERE = auto()
    UPLOAD_GONE = auto()
    UNSUPPORTED = auto()
    THROTTLED = auto()
    UNREACHABLE = auto()
    OPTIONS = auto()
    BROKEN = auto()
    OTHER = auto()


_CODES = {
    Cause.TAKEN: "PreconditionFailed conditionNotMet",
    Cause.CONTENDED: "ConditionalRequestConflict OperationAborted",
    Cause.NO_OBJECT: "NoSuchKey",
    Cause.NO_BUCKET: "NoSuchBucket InvalidBucketName",
    Cause.NO_CREDENTIALS: "NoCredentialsError PartialCredentialsError ProfileNotFound"
    " CredentialRetrievalError NoAuthTokenError DefaultCredentialsError required",
    Cause.BAD_CREDENTIALS: "InvalidAccessKeyId SignatureDoesNotMatch ExpiredToken InvalidToken"
    " TokenRefreshRequired ExpiredTokenException UnauthorizedSSOTokenError SSOTokenLoadError"
    " TokenRetrievalError RefreshError authError",
    Cause.CLOCK: "RequestTimeTooSkewed",
    Cause.FORBIDDEN: "AccessDenied AllAccessDisabled AccountProblem forbidden"
    " insufficientPermissions",
    Cause.ELSEWHERE: "PermanentRedirect TemporaryRedirect Redirect AuthorizationHeaderMalformed"
    " IllegalLocationConstraintException",
    Cause.UPLOAD_GONE: "NoSuchUpload",
    Cause.UNSUPPORTED: "NotImplemented",
    Cause.THROTTLED: "SlowDown SlowDownRead SlowDownWrite Throttling ThrottlingException"
    " RequestLimitExceeded TooManyRequests TooManyRequestsException RequestThrottled"
    " rateLimitExceeded userRateLimitExceeded",
    Cause.OPTIONS: "TypeError ValueError InvalidRegionError ParamValidationError"
    " UnknownSignatureVersionError InvalidEndpointDiscoveryConfigurationError InvalidConfigError"
    " InvalidS3AddressingStyleError InvalidRetryConfigurationError InvalidProxiesConfigError",
    Cause.BROKEN: "InternalError RequestTimeout ServiceUnavailable",
}
_BY_CODE = {code: cause for cause, codes in _CODES.items() for code in codes.split()}
_BY_STATUS = {
    301: Cause.ELSEWHERE,
    307: Cause.ELSEWHERE,
    308: Cause.ELSEWHERE,
    401: Cause.BAD_CREDENTIALS,
    403: Cause.FORBIDDEN,
    404: Cause.NO_OBJECT,
    408: Cause.BROKEN,
    409: Cause.CONTENDED,
    412: Cause.TAKEN,
    429: Cause.THROTTLED,
    501: Cause.UNSUPPORTED,
}

SAYS = {
    Cause.CONTENDED: "the store is busy with another request for this name; try again later",
    Cause.NO_BUCKET: "there is no such bucket; create it, or correct the URL",
    Cause.NO_CREDENTIALS: "no credentials were found; give them in storage_options, or in the"
    " environment or a profile, as the README says",
    Cause.BAD_CREDENTIALS: "the credentials are wrong or have expired; renew them",
    Cause.CLOCK: "the clock of this machine is off by too much for the store; set it",
    Cause.FORBIDDEN: "no permission; the credentials must allow to get, create, list and delete"
    " objects (without the right to list, S3 refuses to read what is not there)",
    Cause.ELSEWHERE: "the bucket is in another region or at another address; set the region or"
    " endpoint_url in storage_options",
    Cause.UPLOAD_GONE: "the parts of the upload are gone, as after a rule of the bucket; try again",
    Cause.UNSUPPORTED: "the store does not implement what a lake needs; use one that honours"
    " create-only writes",
    Cause.THROTTLED: "the store asks for fewer requests; send fewer, or try again later",
    Cause.UNREACHABLE: "the store cannot be reached; check endpoint_url and the network",
    Cause.OPTIONS: "the client does not take these storage options, or what the environment or a"
    " profile says; correct them",
    Cause.BROKEN: "the store failed or did not answer; try again",
    Cause.OTHER: "the store refused the request",
}
"""What is wrong, and the next step."""

_MAY_PASS = (Cause.CONTENDED, Cause.THROTTLED, Cause.UNREACHABLE)


def cause_of(failure: Failure) -> Cause:
    """Return why it failed: by the store's code, else by the status, else by what was sent."""
    if failure.code in _BY_CODE:
        return _BY_CODE[failure.code]
    if not failure.sent:
        return Cause.UNREACHABLE
    if failure.status in _BY_STATUS:
        return _BY_STATUS[failure.status]
    return Cause.BROKEN if failure.status == 0 or failure.status >= 500 else Cause.OTHER


def error_of(failure: Failure, verb: Verb, key: str, url: str) -> LakeError:
    """Return what a caller of the store gets to see; the tables above say why.

    Args:
        failure: How the request ended.
        verb: What it was to do.
        key: The key, or the prefix of a listing.
        url: The root of the store, without credentials.
    """
    cause = cause_of(failure)
    if cause is Cause.NO_OBJECT:
        if verb == "read":
            return NotFoundError(f"no such object. {key=}")
        cause = Cause.NO_BUCKET  # nothing else can be missing when creating and listing
    if cause is Cause.TAKEN and verb in ("write", "upload"):
        return AlreadyExistsError(f"the name is taken. {key=}")
    met = (
        failure.code
        if failure.code == str(failure.status) or not failure.status
        else (f"{failure.status} {failure.code}")
    )
    says = SAYS.get(cause, SAYS[Cause.OTHER])
    text = f"could not {verb}: {says}. {key=} {url=} reason={met!r}"
    return _class_of(cause, verb)(text)


def _class_of(cause: Cause, verb: Verb) -> Callable[[str], LakeError]:
    if cause is Cause.UNSUPPORTED:
        return UnsupportedStoreError
    if cause is Cause.OPTIONS:
        return InputError
    if cause is Cause.BROKEN:
        return UnknownOutcomeError if verb == "write" else TransientError
    return TransientError if cause in _MAY_PASS else StorageError
