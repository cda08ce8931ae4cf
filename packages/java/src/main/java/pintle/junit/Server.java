package pintle.junit;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/** The process of a server, its folder and its log. */
final class Server {
    private static final int LOG_LINES = 2000;
    private static final String URL = "url:";
    private static final String KUBECONFIG = "kubeconfig:";

    /** The maximum time to end the server with SIGKILL and to remove its folder. */
    private static final Duration STOP_TIMEOUT = Duration.ofSeconds(30);

    private final Path binary;
    private final Path folder;
    private final Process process;
    private final Thread reader;
    private final Deque<String> lines = new ArrayDeque<>();
    private final AtomicInteger users = new AtomicInteger();

    /** Opens when the server is ready, and when its output ends. */
    private final CountDownLatch changed = new CountDownLatch(1);

    private volatile String url;
    private volatile Path kubeconfig;

    private Server(Path binary, Path folder, Process process) {
        this.binary = binary;
        this.folder = folder;
        this.process = process;
        this.reader = new Thread(this::read, "pintle-log");
        reader.setDaemon(true);
        reader.start();
    }

    /** Starts a process. A shell script ends it when this process dies. */
    static Server start(Path binary, List<String> args) {
        Path folder = null;
        try {
            folder = Files.createTempDirectory("pintle-");
            List<String> command = new ArrayList<>(List.of("/bin/sh", "-c", guard(), "guard", folder.toString()));
            command.addAll(List.of(binary.toString(), "serve", "--storage-backend=memory", "--secure-port=0"));
            command.add("--data-dir=" + folder);
            command.addAll(args);
            return new Server(binary, folder, new ProcessBuilder(command).redirectErrorStream(true).start());
        } catch (IOException error) {
            remove(folder);
            throw new PintleException("cannot start the server: " + error, error);
        }
    }

    /** Waits until the server has printed its URL and the path of its kubeconfig. */
    void waitUntilReady(Duration timeout) {
        if (!await(changed, timeout)) {
            throw new PintleException(
                    "the server was not ready after " + timeout.toMillis() + " ms. Its log:\n" + log());
        }
        if (kubeconfig == null) {
            waitForEnd();
            throw new PintleException(
                    "the server ended with status " + process.exitValue() + ". Its log:\n" + log());
        }
    }

    String url() {
        return url;
    }

    Kubeconfig administrator() {
        try {
            return new Kubeconfig(Files.readString(kubeconfig), kubeconfig);
        } catch (IOException error) {
            throw new PintleException("cannot read the kubeconfig: " + error, error);
        }
    }

    String log() {
        synchronized (lines) {
            return String.join("\n", lines);
        }
    }

    Kubeconfig user(String name, List<String> groups) {
        String file = "user-" + users.incrementAndGet();
        Path path = folder.resolve(file + ".kubeconfig");
        Path errors = folder.resolve(file + ".errors");
        List<String> command = new ArrayList<>(List.of(binary.toString(), "kubeconfig", "--user=" + name));
        command.add("--data-dir=" + folder);
        groups.forEach(group -> command.add("--group=" + group));
        try {
            Files.createFile(path, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            Process run = new ProcessBuilder(command)
                    .redirectInput(new File("/dev/null"))
                    .redirectOutput(path.toFile())
                    .redirectError(errors.toFile())
                    .start();
            if (run.waitFor() != 0) {
                throw new PintleException("pintle kubeconfig failed: " + Files.readString(errors).strip());
            }
            return new Kubeconfig(Files.readString(path), path);
        } catch (IOException error) {
            throw new PintleException("cannot run pintle kubeconfig: " + error, error);
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    /** Ends the process and removes the folder. */
    void stop() {
        try (OutputStream input = process.getOutputStream()) {
            // The end of the input is not enough: another process may hold a copy of the pipe.
            input.write('\n');
        } catch (IOException ended) {
            // The server has ended by itself.
        }
        try {
            waitForEnd();
        } finally {
            // The folder still exists only if the shell was killed.
            remove(folder);
        }
    }

    private void waitForEnd() {
        try {
            if (!process.waitFor(STOP_TIMEOUT.toSeconds(), TimeUnit.SECONDS)) {
                throw new PintleException("the server did not end within " + STOP_TIMEOUT.toSeconds() + " seconds");
            }
            reader.join();
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    /** Keeps the log, so that the server never waits for a reader. */
    private void read() {
        try (BufferedReader output = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                synchronized (lines) {
                    lines.addLast(line);
                    if (lines.size() > LOG_LINES) {
                        lines.removeFirst();
                    }
                }
                if (url == null && line.startsWith(URL)) {
                    url = line.substring(URL.length()).strip();
                } else if (url != null && kubeconfig == null && line.startsWith(KUBECONFIG)) {
                    kubeconfig = Path.of(line.substring(KUBECONFIG.length()).strip());
                    changed.countDown();
                }
            }
        } catch (IOException error) {
            synchronized (lines) {
                lines.addLast("cannot read the log: " + error);
            }
        }
        changed.countDown();
    }

    private static String guard() throws IOException {
        try (InputStream script = Server.class.getResourceAsStream("/pintle/guard.sh")) {
            if (script == null) {
                throw new IOException("the class path has no /pintle/guard.sh");
            }
            return new String(script.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static void remove(Path folder) {
        if (folder == null || !Files.exists(folder)) {
            return;
        }
        try (Stream<Path> found = Files.walk(folder)) {
            for (Path path : found.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(path);
            }
        } catch (IOException | UncheckedIOException error) {
            throw new PintleException("cannot remove " + folder + ": " + error, error);
        }
    }

    private static boolean await(CountDownLatch latch, Duration timeout) {
        try {
            return latch.await(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    private static PintleException interrupted(InterruptedException error) {
        Thread.currentThread().interrupt();
        return new PintleException("interrupted", error);
    }
}
