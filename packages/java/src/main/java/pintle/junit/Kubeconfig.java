package pintle.junit;

import java.nio.file.Path;

/**
 * A kubeconfig.
 *
 * @param text the YAML text
 * @param path the path of the file, which is removed when the cluster stops
 */
public record Kubeconfig(String text, Path path) {}
