package pintle.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The start and the end of clusters. */
class ClusterTest {
    @Test
    void twoClustersShareNothing() throws Exception {
        try (Cluster first = Cluster.start();
                Cluster second = Cluster.start()) {
            assertNotEquals(first.url(), second.url());
            Clients.createConfigMap(Clients.core(first.kubeconfig()), "only-in-first");
            assertTrue(Clients.configMapNames(Clients.core(first.kubeconfig())).contains("only-in-first"));
            assertFalse(Clients.configMapNames(Clients.core(second.kubeconfig())).contains("only-in-first"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"1.34", "1.35", "1.36", "1.37"})
    void aClusterIsTheVersionThatWasAskedFor(String version) throws Exception {
        try (Cluster cluster = Cluster.builder().kubernetesVersion(version).start()) {
            String found = Clients.gitVersion(cluster.kubeconfig());
            assertTrue(found.startsWith("v" + version + "."), found);
        }
    }

    @Test
    void closeLeavesNoProcessAndNoFolder() throws Exception {
        Cluster cluster = Cluster.start();
        Path folder = cluster.kubeconfigPath().getParent();
        assertFalse(processesOf(folder).isEmpty());
        cluster.user("jane");
        cluster.close();
        assertEquals(List.of(), processesOf(folder));
        assertFalse(Files.exists(folder));
        cluster.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"exit", "halt", "kill"})
    void nothingOutlivesTheProcessOfTheTests(String ending) throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String classes = System.getProperty("java.class.path");
        Process tests = new ProcessBuilder(java, "-cp", classes, Ending.class.getName(), ending)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        String kubeconfig;
        try (BufferedReader output = tests.inputReader()) {
            kubeconfig = output.readLine();
        }
        assertTrue(tests.waitFor(60, TimeUnit.SECONDS));
        Path folder = Path.of(kubeconfig).getParent();
        Instant deadline = Instant.now().plusSeconds(30);
        while (Files.exists(folder) || !processesOf(folder).isEmpty()) {
            assertTrue(Instant.now().isBefore(deadline), () -> "still there: " + folder);
            Thread.sleep(10);
        }
    }

    /** A process that starts a cluster and ends without closing it. */
    static final class Ending {
        private Ending() {}

        public static void main(String[] arguments) throws Exception {
            System.out.println(Cluster.start().kubeconfigPath());
            switch (arguments[0]) {
                case "exit" -> System.exit(0);
                case "halt" -> Runtime.getRuntime().halt(1);
                default -> {
                    String self = Long.toString(ProcessHandle.current().pid());
                    new ProcessBuilder("kill", "-KILL", self).start().waitFor();
                }
            }
        }
    }

    @Test
    void aFailedStartShowsTheLog() {
        var failed = assertThrows(
                PintleException.class, () -> Cluster.builder().args("--no-such-flag").start());
        assertTrue(failed.getMessage().startsWith("the server ended with status 2. Its log:\n"), failed.getMessage());
        assertTrue(failed.getMessage().contains("unexpected argument '--no-such-flag'"), failed.getMessage());
    }

    @Test
    void aStartThatTakesTooLongIsStopped(@TempDir Path temporary) throws Exception {
        Path silent = temporary.resolve("silent");
        Files.writeString(silent, "#!/bin/sh\necho \"$@\"\nexec sleep 600\n");
        Files.setPosixFilePermissions(silent, PosixFilePermissions.fromString("rwx------"));
        var builder = Cluster.builder().binary(silent).timeout(Duration.ofMillis(500));
        String message = assertThrows(PintleException.class, builder::start).getMessage();
        assertTrue(message.startsWith("the server was not ready after 500 ms. Its log:\nserve "), message);
        Path folder = Path.of(message.replaceFirst("(?s).*--data-dir=(\\S+).*", "$1"));
        assertFalse(Files.exists(folder));
        assertEquals(List.of(), processesOf(silent));
    }

    @Test
    void theNamedBinaryMustBeAProgram(@TempDir Path temporary) {
        var builder = Cluster.builder().binary(temporary.resolve("missing"));
        String message = assertThrows(PintleException.class, builder::start).getMessage();
        assertTrue(message.startsWith("the given binary is not a program: "), message);
    }

    /** The processes whose arguments name the path. */
    private static List<String> processesOf(Path path) throws IOException {
        Process listed = new ProcessBuilder("ps", "-Aww", "-o", "pid=,args=").start();
        try (BufferedReader output = listed.inputReader()) {
            return output.lines().filter(line -> line.contains(path.toString())).toList();
        }
    }
}
