package pintle.junit;

/** The server could not be found or started, or one of its commands failed. The message has the server's log. */
public final class PintleException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    PintleException(String message) {
        super(message);
    }

    PintleException(String message, Throwable cause) {
        super(message, cause);
    }
}
