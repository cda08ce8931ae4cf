package pintle.junit;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * A running Kubernetes API server, which listens on a free port of 127.0.0.1 and keeps objects in memory. Several
 * clusters can run at once. {@link #close()} ends the server, and so does the end of this process, whatever the cause.
 */
public final class Cluster implements AutoCloseable {
    private final Server server;
    private final Kubeconfig administrator;

    private Cluster(Server server) {
        this.server = server;
        this.administrator = server.administrator();
    }

    /**
     * Starts a cluster with the defaults and waits until it is ready.
     *
     * @return the cluster
     * @throws PintleException if it cannot be started
     */
    public static Cluster start() {
        return builder().start();
    }

    /**
     * Returns a builder for a cluster with options.
     *
     * @return the builder
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Returns the URL of the server.
     *
     * @return the URL, such as https://127.0.0.1:40219
     */
    public String url() {
        return server.url();
    }

    /**
     * Returns the administrator's kubeconfig.
     *
     * @return the YAML text
     */
    public String kubeconfig() {
        return administrator.text();
    }

    /**
     * Returns the file of the administrator's kubeconfig.
     *
     * @return its path; the file is removed when the cluster stops
     */
    public Path kubeconfigPath() {
        return administrator.path();
    }

    /**
     * Returns the last lines that the server has printed.
     *
     * @return the log
     */
    public String log() {
        return server.log();
    }

    /**
     * Returns a kubeconfig for a user, with a new client certificate. The user may do what RBAC allows.
     *
     * @param name the name of the user
     * @param groups the groups of the user
     * @return the kubeconfig
     * @throws PintleException if the server's authority does not sign the certificate
     */
    public Kubeconfig user(String name, String... groups) {
        return server.user(name, List.of(groups));
    }

    /** Stops the server and removes its folder. A second call does nothing. */
    @Override
    public void close() {
        server.stop();
    }

    /** The options of a cluster. */
    public static final class Builder {
        private List<String> args = List.of();
        private String kubernetesVersion = "";
        private Path binary;
        private Duration timeout = Duration.ofSeconds(30);

        private Builder() {}

        /**
         * Sets further arguments of {@code pintle serve}.
         *
         * @param args the arguments
         * @return this builder
         */
        public Builder args(String... args) {
            this.args = List.of(args);
            return this;
        }

        /**
         * Sets the program of the server. The default is the jar's program for this platform, or else the program that
         * the environment variable PINTLE_BINARY names, or else {@code pintle} on the PATH.
         *
         * @param binary the path of the program
         * @return this builder
         */
        public Builder binary(Path binary) {
            this.binary = Objects.requireNonNull(binary);
            return this;
        }

        /**
         * Sets the minor version of Kubernetes that the cluster is, such as 1.35. The default is the newest one.
         *
         * @param version the version; the default if it is empty
         * @return this builder
         */
        public Builder kubernetesVersion(String version) {
            this.kubernetesVersion = Objects.requireNonNull(version);
            return this;
        }

        /**
         * Sets how long the start may take. The default is 30 seconds.
         *
         * @param timeout the duration
         * @return this builder
         */
        public Builder timeout(Duration timeout) {
            this.timeout = Objects.requireNonNull(timeout);
            return this;
        }

        /**
         * Starts the cluster and waits until it is ready.
         *
         * @return the cluster
         * @throws PintleException if it cannot be started
         */
        public Cluster start() {
            List<String> all = new ArrayList<>(args);
            if (!kubernetesVersion.isEmpty()) {
                all.add(0, "--kubernetes-version=" + kubernetesVersion);
            }
            Server server = Server.start(Binary.find(binary), all);
            try {
                server.waitUntilReady(timeout);
                return new Cluster(server);
            } catch (RuntimeException | Error error) {
                server.stop();
                throw error;
            }
        }
    }
}
